/* Adds the products of two channels with two pixels, as dot_plain does. */
SUMMING void dot_2x2(int32_t sums[4], const int32_t *x, const int32_t *w, int32_t quads)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__)
/* One quad. */
#define DOT_2X2_QUAD                                                                               \
    "ldrd %[u], %[v], [%[w]], #8\n\t"                                                              \
    "ldrd %[p], %[q], [%[x]], #8\n\t"                                                              \
    "sxtb16 %[t], %[u]\n\t"                                                                        \
    "sxtb16 %[s], %[v]\n\t"                                                                        \
    "smlad %[a0], %[p], %[t], %[a0]\n\t"                                                           \
    "smlad %[a1], %[p], %[s], %[a1]\n\t"                                                           \
    "smlad %[a0], %[q], %[u], %[a0]\n\t"                                                           \
    "smlad %[a1], %[q], %[v], %[a1]\n\t"                                                           \
    "ldrd %[p], %[q], [%[x]], #8\n\t"                                                              \
    "smlad %[a2], %[p], %[t], %[a2]\n\t"                                                           \
    "smlad %[a3], %[p], %[s], %[a3]\n\t"                                                           \
    "smlad %[a2], %[q], %[u], %[a2]\n\t"                                                           \
    "smlad %[a3], %[q], %[v], %[a3]\n\t"
/* What it works on. */
#define DOT_2X2_PLACES                                                                             \
    [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [w] "+r"(w), [x] "+r"(x),          \
        [u] "=&r"(u), [v] "=&r"(v), [t] "=&r"(t), [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q)
    int32_t a0 = sums[0];
    int32_t a1 = sums[1];
    int32_t a2 = sums[2];
    int32_t a3 = sums[3];
    int32_t u;
    int32_t v;
    int32_t t;
    int32_t s;
    int32_t p;
    int32_t q;

    DOT_QUADS(quads, 2, DOT_2X2_QUAD, DOT_2X2_PLACES, "memory");
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
#undef DOT_2X2_QUAD
#undef DOT_2X2_PLACES
#else
    dot_plain(sums, x, w, quads, 2, 2);
#endif
}
