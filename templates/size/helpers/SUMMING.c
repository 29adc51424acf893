/* Sums of products are one function for all kernels. */
#ifdef __GNUC__
#define SUMMING static __attribute__((noinline))
#else
#define SUMMING static
#endif
