/* Writes so many turns of the loop that follows in a row, so that sums stay in registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED(turns) UNROLLED_BY(GCC unroll turns)
#define UNROLLED_BY(words) _Pragma(#words)
#else
#define UNROLLED(turns)
#endif
