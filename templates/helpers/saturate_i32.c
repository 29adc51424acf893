/* The value limited to [low, high]. */
static inline int32_t saturate_i32(int32_t value, int32_t low, int32_t high)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__)
    if (__builtin_constant_p(low) && __builtin_constant_p(high) && low == -128 && high == 127) {
        int32_t limited;

        __asm__("ssat %0, #8, %1" : "=r"(limited) : "r"(value));
        return limited;
    }
#endif
    if (value < low) {
        return low;
    }
    return value > high ? high : value;
}
