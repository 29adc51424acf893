/* Adds the products of one number with so many taps of each of four channels.
 *
 * pair: the number twice, as two int16_t. taps: see multiply_bytes.
 */
#ifdef __GNUC__
__attribute__((always_inline)) /* the sums are to stay in registers */
#endif
static inline void multiply_same(int32_t sums[4], int32_t pair, const int32_t **taps, int32_t count)
{
    for (int32_t at = 0; at < count; ++at) {
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
        int32_t u;
        int32_t v;

        __asm__ volatile("ldrd %[u], %[v], [%[taps]], #8\n\t"
                         "smlabb %[a0], %[p], %[u], %[a0]\n\t"
                         "smlabb %[a1], %[p], %[v], %[a1]\n\t"
                         "smlatt %[a2], %[p], %[u], %[a2]\n\t"
                         "smlatt %[a3], %[p], %[v], %[a3]"
                         : [a0] "+r"(sums[0]), [a1] "+r"(sums[1]), [a2] "+r"(sums[2]),
                           [a3] "+r"(sums[3]), [taps] "+r"(*taps), [u] "=&r"(u), [v] "=&r"(v)
                         : [p] "r"(pair)
                         : "memory");
#else
        const int32_t pairs[2] = {pair, pair};
        const int32_t *from = pairs;

        multiply_four(sums, &from, taps);
#endif
    }
}
