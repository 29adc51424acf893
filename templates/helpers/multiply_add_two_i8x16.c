/* Sums plus the products of two places; see multiply_i8x16. Two must fit 16 bits: no w is -128. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline i32x16 multiply_add_two_i8x16(i32x16 sums, const int8_t *x0, int32_t at0,
                                            const int8_t *x1, int32_t at1, const int8_t **w)
{
#if defined(__ARM_FEATURE_MVE) && defined(__OPTIMIZE__)
    __asm__ volatile("vldrb.u8 q0, [%[x0], %[at0]]\n\t"
                     "vldrb.u8 q1, [%[w]], #16\n\t"
                     "vmullb.s8 q2, q0, q1\n\t"
                     "vmullt.s8 q3, q0, q1\n\t"
                     "vldrb.u8 q0, [%[x1], %[at1]]\n\t"
                     "vldrb.u8 q1, [%[w]]\n\t"
                     "vmullb.s8 q1, q0, q1\n\t"
                     "vadd.i16 q2, q2, q1\n\t"
                     "vldrb.u8 q1, [%[w]], #16\n\t" /* again: no register is left */
                     "vmullt.s8 q1, q0, q1\n\t"
                     "vadd.i16 q3, q3, q1\n\t"
                     "vmovlb.s16 q0, q2\n\t"
                     "vadd.i32 %q[from0], %q[from0], q0\n\t"
                     "vmovlt.s16 q0, q2\n\t"
                     "vadd.i32 %q[from2], %q[from2], q0\n\t"
                     "vmovlb.s16 q0, q3\n\t"
                     "vadd.i32 %q[from1], %q[from1], q0\n\t"
                     "vmovlt.s16 q0, q3\n\t"
                     "vadd.i32 %q[from3], %q[from3], q0"
                     : [from0] "+w"(sums.from0), [from1] "+w"(sums.from1), [from2] "+w"(sums.from2),
                       [from3] "+w"(sums.from3), [w] "+r"(*w)
                     : [x0] "r"(x0), [at0] "i"(at0), [x1] "r"(x1), [at1] "i"(at1)
                     : "q0", "q1", "q2", "q3", "memory");
    return sums;
#else
    sums = multiply_add_i8x16(sums, x0, at0, w);
    return multiply_add_i8x16(sums, x1, at1, w);
#endif
}
