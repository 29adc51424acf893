/* Adds up the products of two channels with two pixels: sums[2 * channel + pixel].
 *
 * x0, x1: the pixels. w: 16 weights of each of four channels, then the next 16, and so on; the
 * two are the first and the third. blocks: how many 16s.
 */
#ifdef __GNUC__
__attribute__((always_inline)) /* the sums are to stay in registers, the number is constant */
#endif
static inline void dot_blocks_2x2(int32_t sums[4], const int8_t *x0, const int8_t *x1,
                                  const int8_t *w, int32_t blocks)
{
#if defined(__ARM_FEATURE_MVE) && defined(__OPTIMIZE__)
/* One block. multiply: vmladav for the first, vmladava for a further one. */
#define DOT_2X2_BLOCK(multiply, at)                                                                \
    "vldrb.u8 q0, [%[x0], #" #at "]\n\t"                                                           \
    "vldrb.u8 q1, [%[x1], #" #at "]\n\t"                                                           \
    "vldrb.u8 q2, [%[w]], #32\n\t" multiply ".s8 %[a0], q0, q2\n\t" multiply                       \
    ".s8 %[a1], q1, q2\n\t"                                                                        \
    "vldrb.u8 q3, [%[w]], #32\n\t" multiply ".s8 %[a2], q0, q3\n\t" multiply ".s8 %[a3], q1, q3"
/* One that is added. */
#define DOT_2X2_ADD(at)                                                                            \
    __asm__ volatile(DOT_2X2_BLOCK("vmladava", at)                                                 \
                     : [a0] "+Te"(a0), [a1] "+Te"(a1), [a2] "+Te"(a2), [a3] "+Te"(a3), [w] "+r"(w) \
                     : [x0] "r"(x0), [x1] "r"(x1)                                                  \
                     : "q0", "q1", "q2", "q3", "memory")
    int32_t a0;
    int32_t a1;
    int32_t a2;
    int32_t a3;

    __asm__ volatile(
        DOT_2X2_BLOCK("vmladav", 0)
        : [a0] "=&Te"(a0), [a1] "=&Te"(a1), [a2] "=&Te"(a2), [a3] "=&Te"(a3), [w] "+r"(w)
        : [x0] "r"(x0), [x1] "r"(x1)
        : "q0", "q1", "q2", "q3", "memory");
    DOT_BLOCKS(blocks, DOT_2X2_ADD, (x0 += 128, x1 += 128));
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = a2;
    sums[3] = a3;
#undef DOT_2X2_BLOCK
#undef DOT_2X2_ADD
#else
    for (int32_t at = 0; at < 4; ++at) {
        const int8_t *const x = at % 2 == 0 ? x0 : x1;

        sums[at] = 0;
        for (int32_t k = 0; k < 16 * blocks; ++k) {
            sums[at] += x[k] * w[(64 * (k / 16)) + (32 * (at / 2)) + (k % 16)];
        }
    }
#endif
}
