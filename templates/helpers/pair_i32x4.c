/* Puts two numbers at 0 and 2 of four; with half = 1 at 1 and 3, once 0 and 2 are there. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline void pair_i32x4(i32x4 *four, int32_t half, int32_t first, int32_t second)
{
#if defined(__ARM_FEATURE_MVE) && defined(__OPTIMIZE__)
    if (half == 0) {
        __asm__("vmov %q0[2], %q0[0], %1, %2" : "=w"(*four) : "r"(first), "r"(second));
    } else {
        __asm__("vmov %q0[3], %q0[1], %1, %2" : "+w"(*four) : "r"(first), "r"(second));
    }
#elif defined(__ARM_FEATURE_MVE)
    (*four)[half] = first;
    (*four)[half + 2] = second;
#else
    four->at[half] = first;
    four->at[half + 2] = second;
#endif
}
