/* Adds the products of two channels with int8_t numbers of one pixel, each four of them spread as
 * spread_quads does, as dot_plain does.
 */
SUMMING void dot_2_bytes(int32_t sums[2], const int8_t *x, const int32_t *w, int32_t quads)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__)
/* One quad. */
#define DOT_2_BYTES_QUAD                                                                           \
    "ldr %[q], [%[x]], #4\n\t"                                                                     \
    "ldrd %[u], %[v], [%[w]], #8\n\t"                                                              \
    "uxtb16 %[p], %[q]\n\t"                                                                        \
    "sxtb16 %[q], %[q], ror #8\n\t"                                                                \
    "add %[p], %[half], %[p], lsl #8\n\t"                                                          \
    "ssub16 %[p], %[p], %[q]\n\t"                                                                  \
    "sxtb16 %[t], %[u]\n\t"                                                                        \
    "sxtb16 %[s], %[v]\n\t"                                                                        \
    "smlad %[a0], %[p], %[t], %[a0]\n\t"                                                           \
    "smlad %[a1], %[p], %[s], %[a1]\n\t"                                                           \
    "smlad %[a0], %[q], %[u], %[a0]\n\t"                                                           \
    "smlad %[a1], %[q], %[v], %[a1]\n\t"
/* What it works on. */
#define DOT_2_BYTES_PLACES                                                                         \
    [a0] "+r"(a0), [a1] "+r"(a1), [w] "+r"(w), [x] "+r"(x), [u] "=&r"(u), [v] "=&r"(v),            \
        [t] "=&r"(t), [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q), [half] "+r"(half)
    int32_t half = 0x007F007F;
    int32_t a0 = sums[0];
    int32_t a1 = sums[1];
    int32_t u;
    int32_t v;
    int32_t t;
    int32_t s;
    int32_t p;
    int32_t q;

    DOT_QUADS(quads, 2, DOT_2_BYTES_QUAD, DOT_2_BYTES_PLACES, "memory");
    sums[0] = a0;
    sums[1] = a1;
#undef DOT_2_BYTES_QUAD
#undef DOT_2_BYTES_PLACES
#else
    for (int32_t quad = 0; quad < quads; ++quad) {
        int32_t spread[2];

        spread_quads(spread, 2, &x[4 * quad], 1);
        dot_plain(sums, spread, &w[2 * quad], 1, 2, 1);
    }
#endif
}
