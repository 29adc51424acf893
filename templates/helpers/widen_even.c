/* Bytes 0 and 2 of a word as two int16_t in one. */
static inline int32_t widen_even(int32_t word)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
    int32_t pair;

    __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
    return pair;
#else
    const uint32_t bits = (uint32_t)word ^ 0x00800080U;
    const uint32_t low = ((bits & 0xFFU) - 0x80U) & 0xFFFFU;

    return (int32_t)(low | ((((bits >> 16) & 0xFFU) - 0x80U) << 16));
#endif
}
