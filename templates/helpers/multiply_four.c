/* Adds the products of four channels with one tap of each, and goes to the next column and tap.
 *
 * x, taps: channels 0 and 2, then 1 and 3, as two int16_t in a word each.
 */
#ifdef __GNUC__
__attribute__((always_inline)) /* the sums are to stay in registers */
#endif
static inline void multiply_four(int32_t sums[4], const int32_t **x, const int32_t **taps)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
    int32_t p;
    int32_t q;
    int32_t u;
    int32_t v;

    __asm__ volatile(
        "ldrd %[p], %[q], [%[x]], #8\n\t"
        "ldrd %[u], %[v], [%[taps]], #8\n\t"
        "smlabb %[a0], %[p], %[u], %[a0]\n\t"
        "smlabb %[a1], %[q], %[v], %[a1]\n\t"
        "smlatt %[a2], %[p], %[u], %[a2]\n\t"
        "smlatt %[a3], %[q], %[v], %[a3]"
        : [a0] "+r"(sums[0]), [a1] "+r"(sums[1]), [a2] "+r"(sums[2]), [a3] "+r"(sums[3]),
          [x] "+r"(*x), [taps] "+r"(*taps), [p] "=&r"(p), [q] "=&r"(q), [u] "=&r"(u), [v] "=&r"(v)
        :
        : "memory");
#else
    for (int32_t at = 0; at < 2; ++at) {
        const int32_t one = (*x)[at];
        const int32_t tap = (*taps)[at];
        const int32_t low = (int16_t)(one & 0xFFFF) * (int16_t)(tap & 0xFFFF);
        const int32_t high = (one >> 16) * (tap >> 16);

        sums[at] = (int32_t)((uint32_t)sums[at] + (uint32_t)low);
        sums[at + 2] = (int32_t)((uint32_t)sums[at + 2] + (uint32_t)high);
    }
    *x += 2;
    *taps += 2;
#endif
}
