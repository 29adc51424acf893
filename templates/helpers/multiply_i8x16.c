/* Products of sixteen neighbours at a constant place behind x, below 128, with those at *w, which
 * moves on. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline i32x16 multiply_i8x16(const int8_t *x, int32_t at, const int8_t **w)
{
    i32x16 sums;

#if defined(__ARM_FEATURE_MVE) && defined(__OPTIMIZE__)
    __asm__ volatile("vldrb.u8 q0, [%[x], %[at]]\n\t"
                     "vldrb.u8 q1, [%[w]], #16\n\t"
                     "vmullb.s8 q2, q0, q1\n\t"
                     "vmullt.s8 q3, q0, q1\n\t"
                     "vmovlb.s16 %q[from0], q2\n\t"
                     "vmovlt.s16 %q[from2], q2\n\t"
                     "vmovlb.s16 %q[from1], q3\n\t"
                     "vmovlt.s16 %q[from3], q3"
                     : [from0] "=&w"(sums.from0), [from1] "=&w"(sums.from1),
                       [from2] "=&w"(sums.from2), [from3] "=&w"(sums.from3), [w] "+r"(*w)
                     : [x] "r"(x), [at] "i"(at)
                     : "q0", "q1", "q2", "q3", "memory");
#elif defined(__ARM_FEATURE_MVE)
    const int8x16_t left = vldrbq_s8(&x[at]);
    const int8x16_t right = vldrbq_s8(*w);
    const int16x8_t even = vmullbq_int_s8(left, right);
    const int16x8_t odd = vmulltq_int_s8(left, right);

    sums.from0 = vmovlbq_s16(even);
    sums.from1 = vmovlbq_s16(odd);
    sums.from2 = vmovltq_s16(even);
    sums.from3 = vmovltq_s16(odd);
    *w += 16;
#else
    for (int32_t lane = 0; lane < 16; ++lane) {
        sums.at[lane] = x[at + lane] * (*w)[lane];
    }
    *w += 16;
#endif
    return sums;
}
