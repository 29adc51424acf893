/* Adds the products of two channels with three pixels, four and four: 256 times each plus a
 * constant, see 'words' of the weights.
 *
 * A word of weights holds (256 w1 + w0, 256 w3 + w2). Its halves times (x1, x3), and (w0, w2) times
 * (256 x0 - x1 + 127, 256 x2 - x3 + 127), are 256 times the four products plus 127 (w0 + w2): two
 * instructions for four products, and a single one to unpack the weights.
 */
#ifdef __GNUC__
__attribute__((always_inline)) /* the sums are to stay in registers */
#endif
static inline void dot_2x3(int32_t sums[6], const int32_t *x, const int32_t *w, int32_t quads)
{
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__)
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
    const int32_t *const end = &w[2 * (quads & ~3)]; /* in memory: no register is free */
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

    if (quads > 3) {
        __asm__ volatile("1:\n\t" DOT_2X3_QUAD DOT_2X3_QUAD DOT_2X3_QUAD DOT_2X3_QUAD
                         "ldr %[p], %[end]\n\t"
                         "cmp %[w], %[p]\n\t"
                         "bne 1b"
                         : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3),
                           [a4] "+r"(a4), [a5] "+r"(a5), [w] "+r"(w), [x] "+r"(x), [u] "=&r"(u),
                           [v] "=&r"(v), [t] "=&r"(t), [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q)
                         : [end] "m"(end)
                         : "cc", "memory");
    }
    if ((quads & 3) == 1) {
        __asm__ volatile(DOT_2X3_QUAD
                         : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3),
                           [a4] "+r"(a4), [a5] "+r"(a5), [w] "+r"(w), [x] "+r"(x), [u] "=&r"(u),
                           [v] "=&r"(v), [t] "=&r"(t), [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q)
                         :
                         : "memory");
    }
    if ((quads & 3) == 2) {
        __asm__ volatile(DOT_2X3_QUAD DOT_2X3_QUAD
                         : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3),
                           [a4] "+r"(a4), [a5] "+r"(a5), [w] "+r"(w), [x] "+r"(x), [u] "=&r"(u),
                           [v] "=&r"(v), [t] "=&r"(t), [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q)
                         :
                         : "memory");
    }
    if ((quads & 3) == 3) {
        __asm__ volatile(DOT_2X3_QUAD DOT_2X3_QUAD DOT_2X3_QUAD
                         : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3),
                           [a4] "+r"(a4), [a5] "+r"(a5), [w] "+r"(w), [x] "+r"(x), [u] "=&r"(u),
                           [v] "=&r"(v), [t] "=&r"(t), [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q)
                         :
                         : "memory");
    }
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
    sums[4] = a4;
    sums[5] = a5;
#undef DOT_2X3_QUAD
#else
    for (int32_t quad = 0; quad < quads; ++quad) {
        for (int32_t at = 0; at < 6; ++at) {
            const int32_t weights = w[(2 * quad) + (at % 2)];
            const int32_t *const pair = &x[2 * ((3 * quad) + (at / 2))];
            const int32_t sum = multiply_pairs(pair[0], widen_even(weights), sums[at]);

            sums[at] = multiply_pairs(pair[1], weights, sum);
        }
    }
#endif
}
