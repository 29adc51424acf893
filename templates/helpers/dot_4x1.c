/* Adds the products of four channels with one pixel, as dot_plain does: by clang in C, which has
 * too few registers for more.
 */
SUMMING void dot_4x1(int32_t sums[4], const int32_t *x, const int32_t *w, int32_t quads)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__) &&                  \
    !defined(__clang__)
/* One quad. */
#define DOT_4X1_QUAD                                                                               \
    "ldmia %[w]!, {r0, r1, r2, r3}\n\t"                                                            \
    "ldrd %[p], %[q], [%[x]], #8\n\t"                                                              \
    "sxtb16 %[t], r0\n\t"                                                                          \
    "smlad %[a0], %[p], %[t], %[a0]\n\t"                                                           \
    "smlad %[a0], %[q], r0, %[a0]\n\t"                                                             \
    "sxtb16 %[t], r1\n\t"                                                                          \
    "smlad %[a1], %[p], %[t], %[a1]\n\t"                                                           \
    "smlad %[a1], %[q], r1, %[a1]\n\t"                                                             \
    "sxtb16 %[t], r2\n\t"                                                                          \
    "smlad %[a2], %[p], %[t], %[a2]\n\t"                                                           \
    "smlad %[a2], %[q], r2, %[a2]\n\t"                                                             \
    "sxtb16 %[t], r3\n\t"                                                                          \
    "smlad %[a3], %[p], %[t], %[a3]\n\t"                                                           \
    "smlad %[a3], %[q], r3, %[a3]\n\t"
/* What it works on. */
#define DOT_4X1_PLACES                                                                             \
    [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [w] "+r"(w), [x] "+r"(x),          \
        [t] "=&r"(t), [p] "=&r"(p), [q] "=&r"(q)
    int32_t a0 = sums[0];
    int32_t a1 = sums[1];
    int32_t a2 = sums[2];
    int32_t a3 = sums[3];
    int32_t t;
    int32_t p;
    int32_t q;

    DOT_QUADS(quads, 4, DOT_4X1_QUAD, DOT_4X1_PLACES, "memory", "r0", "r1", "r2", "r3");
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
#undef DOT_4X1_QUAD
#undef DOT_4X1_PLACES
#else
    dot_plain(sums, x, w, quads, 4, 1);
#endif
}
