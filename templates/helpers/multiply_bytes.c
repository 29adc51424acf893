/* Adds the products of four channels, four int8_t, with one tap of each, and goes to the next tap.
 *
 * taps: of channels 0 and 2, then 1 and 3, as two int16_t in a word each.
 */
#ifdef __GNUC__
__attribute__((always_inline)) /* the sums are to stay in registers */
#endif
static inline void multiply_bytes(int32_t sums[4], const int8_t *x, const int32_t **taps)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
    int32_t p;
    int32_t q;
    int32_t u;
    int32_t v;

    memcpy(&p, x, sizeof p);
    __asm__ volatile(
        "ldrd %[u], %[v], [%[taps]], #8\n\t"
        "sxtb16 %[q], %[p], ror #8\n\t"
        "sxtb16 %[p], %[p]\n\t"
        "smlabb %[a0], %[p], %[u], %[a0]\n\t"
        "smlabb %[a1], %[q], %[v], %[a1]\n\t"
        "smlatt %[a2], %[p], %[u], %[a2]\n\t"
        "smlatt %[a3], %[q], %[v], %[a3]"
        : [a0] "+r"(sums[0]), [a1] "+r"(sums[1]), [a2] "+r"(sums[2]), [a3] "+r"(sums[3]),
          [taps] "+r"(*taps), [p] "+r"(p), [q] "=&r"(q), [u] "=&r"(u), [v] "=&r"(v)
        :
        : "memory");
#else
    int32_t wide[2];
    const int32_t *from = wide;

    widen_four(wide, x);
    multiply_four(sums, &from, taps);
#endif
}
