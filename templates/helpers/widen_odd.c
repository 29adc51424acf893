/* Bytes 1 and 3 of a word as two int16_t in one. */
static inline int32_t widen_odd(int32_t word)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
    int32_t pair;

    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
#else
    return widen_even((int32_t)((uint32_t)word >> 8));
#endif
}
