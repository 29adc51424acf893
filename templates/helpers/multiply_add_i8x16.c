/* Sums plus the products of one place; see multiply_i8x16. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline i32x16 multiply_add_i8x16(i32x16 sums, const int8_t *x, int32_t at, const int8_t **w)
{
    const i32x16 made = multiply_i8x16(x, at, w);

#if defined(__ARM_FEATURE_MVE)
    sums.from0 = vaddq_s32(sums.from0, made.from0);
    sums.from1 = vaddq_s32(sums.from1, made.from1);
    sums.from2 = vaddq_s32(sums.from2, made.from2);
    sums.from3 = vaddq_s32(sums.from3, made.from3);
#else
    for (int32_t lane = 0; lane < 16; ++lane) {
        sums.at[lane] += made.at[lane];
    }
#endif
    return sums;
}
