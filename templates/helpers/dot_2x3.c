/* Adds the products of two channels with three pixels, as dot_plain does: by clang in C, which has
 * too few registers for more.
 */
SUMMING void dot_2x3(int32_t sums[6], const int32_t *x, const int32_t *w, int32_t quads)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__) &&                  \
    !defined(__clang__)
/* One quad. */
#define DOT_2X3_QUAD                                                                               \
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
    "smlad %[a3], %[q], %[v], %[a3]\n\t"                                                           \
    "ldrd %[p], %[q], [%[x]], #8\n\t"                                                              \
    "smlad %[a4], %[p], %[t], %[a4]\n\t"                                                           \
    "smlad %[a5], %[p], %[s], %[a5]\n\t"                                                           \
    "smlad %[a4], %[q], %[u], %[a4]\n\t"                                                           \
    "smlad %[a5], %[q], %[v], %[a5]\n\t"
/* What it works on. */
#define DOT_2X3_PLACES                                                                             \
    [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [a4] "+r"(a4), [a5] "+r"(a5),      \
        [w] "+r"(w), [x] "+r"(x), [u] "=&r"(u), [v] "=&r"(v), [t] "=&r"(t), [s] "=&r"(s),          \
        [p] "=&r"(p), [q] "=&r"(q)
    int32_t a0 = sums[0];
    int32_t a1 = sums[1];
    int32_t a2 = sums[2];
    int32_t a3 = sums[3];
    int32_t a4 = sums[4];
    int32_t a5 = sums[5];
    int32_t u;
    int32_t v;
    int32_t t;
    int32_t s;
    int32_t p;
    int32_t q;

    DOT_QUADS(quads, 2, DOT_2X3_QUAD, DOT_2X3_PLACES, "memory");
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
    sums[4] = a4;
    sums[5] = a5;
#undef DOT_2X3_QUAD
#undef DOT_2X3_PLACES
#else
    dot_plain(sums, x, w, quads, 2, 3);
#endif
}
