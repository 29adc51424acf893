/* Adds up the products of four channels with one pixel.
 *
 * x: the pixel. w: 16 weights of each of the channels, then the next 16, and so on. blocks: how
 * many 16s.
 */
#ifdef __GNUC__
__attribute__((always_inline)) /* the sums are to stay in registers, the number is constant */
#endif
static inline i32x4 dot_blocks_4x1(const int8_t *x, const int8_t *w, int32_t blocks)
{
    int32_t a0;
    int32_t a1;
    int32_t a2;
    int32_t a3;
    i32x4 sums;
#if defined(__ARM_FEATURE_MVE) && defined(__OPTIMIZE__)
/* One block. multiply: vmladav for the first, vmladava for a further one. */
#define DOT_4X1_BLOCK(multiply, at)                                                                \
    "vldrb.u8 q0, [%[x], #" #at "]\n\t"                                                            \
    "vldrb.u8 q1, [%[w]], #16\n\t" multiply ".s8 %[a0], q0, q1\n\t"                                \
    "vldrb.u8 q1, [%[w]], #16\n\t" multiply ".s8 %[a1], q0, q1\n\t"                                \
    "vldrb.u8 q1, [%[w]], #16\n\t" multiply ".s8 %[a2], q0, q1\n\t"                                \
    "vldrb.u8 q1, [%[w]], #16\n\t" multiply ".s8 %[a3], q0, q1"
/* One that is added. */
#define DOT_4X1_ADD(at)                                                                            \
    __asm__ volatile(DOT_4X1_BLOCK("vmladava", at)                                                 \
                     : [a0] "+Te"(a0), [a1] "+Te"(a1), [a2] "+Te"(a2), [a3] "+Te"(a3), [w] "+r"(w) \
                     : [x] "r"(x)                                                                  \
                     : "q0", "q1", "memory")

    __asm__ volatile(
        DOT_4X1_BLOCK("vmladav", 0)
        : [a0] "=&Te"(a0), [a1] "=&Te"(a1), [a2] "=&Te"(a2), [a3] "=&Te"(a3), [w] "+r"(w)
        : [x] "r"(x)
        : "q0", "q1", "memory");
    DOT_BLOCKS(blocks, DOT_4X1_ADD, x += 128);
#undef DOT_4X1_BLOCK
#undef DOT_4X1_ADD
#else
    a0 = a1 = a2 = a3 = 0;
    for (int32_t k = 0; k < 16 * blocks; ++k) {
        const int8_t *const column = &w[(64 * (k / 16)) + (k % 16)];

        a0 += x[k] * column[0];
        a1 += x[k] * column[16];
        a2 += x[k] * column[32];
        a3 += x[k] * column[48];
    }
#endif
    pair_i32x4(&sums, 0, a0, a2);
    pair_i32x4(&sums, 1, a1, a3);
    return sums;
}
