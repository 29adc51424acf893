/* Numbers limited to a range. */
static inline i32x4 saturate_i32x4(i32x4 four, int32_t low, int32_t high)
{
#if defined(__ARM_FEATURE_MVE)
    return vminq_s32(vmaxq_s32(four, vdupq_n_s32(low)), vdupq_n_s32(high));
#else
    for (int32_t at = 0; at < 4; ++at) {
        four.at[at] = saturate_i32(four.at[at], low, high);
    }
    return four;
#endif
}
