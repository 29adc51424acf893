/* Sums plus sixteen numbers. */
static inline i32x16 accumulate_i16x16(i32x16 sums, i16x16 value)
{
#if defined(__ARM_FEATURE_MVE)
    sums.val[0] = vaddq_s32(sums.val[0], vmovlbq_s16(value.even));
    sums.val[1] = vaddq_s32(sums.val[1], vmovlbq_s16(value.odd));
    sums.val[2] = vaddq_s32(sums.val[2], vmovltq_s16(value.even));
    sums.val[3] = vaddq_s32(sums.val[3], vmovltq_s16(value.odd));
#else
    for (int32_t at = 0; at < 16; ++at) {
        sums.at[at] += value.at[at];
    }
#endif
    return sums;
}
