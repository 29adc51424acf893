/* Sums of products are written into each kernel, so that they stay in registers. */
#ifdef __GNUC__
#define SUMMING static inline __attribute__((always_inline))
#else
#define SUMMING static inline
#endif
