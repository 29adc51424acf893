/* sum + the products of both halves of two words, int16_t each, modulo 2^32. */
static inline int32_t multiply_pairs(int32_t one, int32_t other, int32_t sum)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
    int32_t total;

    __asm__("smlad %0, %1, %2, %3" : "=r"(total) : "r"(one), "r"(other), "r"(sum));
    return total;
#else
    const int32_t low = (int32_t)(int16_t)(one & 0xFFFF) * (int16_t)(other & 0xFFFF);
    const int32_t high = (one >> 16) * (other >> 16);

    return (int32_t)((uint32_t)sum + (uint32_t)low + (uint32_t)high);
#endif
}
