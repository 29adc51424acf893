/* Numbers limited to a range. NaN gives low. */
static inline f32x4 saturate_f32x4(f32x4 four, float low, float high)
{
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
    return vminnmq_f32(vmaxnmq_f32(four, vdupq_n_f32(low)), vdupq_n_f32(high));
#else
    for (int32_t at = 0; at < 4; ++at) {
        four.at[at] = saturate_f32(four.at[at], low, high);
    }
    return four;
#endif
}
