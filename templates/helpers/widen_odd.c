/* Bytes 1 and 3 of a word as two int16_t in one. */
static inline int32_t widen_odd(int32_t word)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
    int32_t pair;

    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
#else
    const uint32_t bits = (uint32_t)word ^ 0x80008000U;
    const uint32_t low = (((bits >> 8) & 0xFFU) - 0x80U) & 0xFFFFU;

    return (int32_t)(low | (((bits >> 24) - 0x80U) << 16));
#endif
}
