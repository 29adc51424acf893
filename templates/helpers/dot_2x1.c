/* Adds the products of two channels with one pixel, as dot_plain does. */
SUMMING void dot_2x1(int32_t sums[2], const int32_t *x, const int32_t *w, int32_t quads)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__)
/* One quad. */
#define DOT_2X1_QUAD                                                                               \
    "ldrd %[u], %[v], [%[w]], #8\n\t"                                                              \
    "ldrd %[p], %[q], [%[x]], #8\n\t"                                                              \
    "sxtb16 %[t], %[u]\n\t"                                                                        \
    "sxtb16 %[s], %[v]\n\t"                                                                        \
    "smlad %[a0], %[p], %[t], %[a0]\n\t"                                                           \
    "smlad %[a1], %[p], %[s], %[a1]\n\t"                                                           \
    "smlad %[a0], %[q], %[u], %[a0]\n\t"                                                           \
    "smlad %[a1], %[q], %[v], %[a1]\n\t"
/* What it works on. */
#define DOT_2X1_PLACES                                                                             \
    [a0] "+r"(a0), [a1] "+r"(a1), [w] "+r"(w), [x] "+r"(x), [u] "=&r"(u), [v] "=&r"(v),            \
        [t] "=&r"(t), [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q)
    int32_t a0 = sums[0];
    int32_t a1 = sums[1];
    int32_t u;
    int32_t v;
    int32_t t;
    int32_t s;
    int32_t p;
    int32_t q;

    DOT_QUADS(quads, 2, DOT_2X1_QUAD, DOT_2X1_PLACES, "memory");
    sums[0] = a0;
    sums[1] = a1;
#undef DOT_2X1_QUAD
#undef DOT_2X1_PLACES
#else
    dot_plain(sums, x, w, quads, 2, 1);
#endif
}
