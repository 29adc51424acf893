/* Differences. */
static inline f32x4 sub_f32x4(f32x4 left, f32x4 right)
{
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
    return vsubq_f32(left, right);
#else
    for (int32_t at = 0; at < 4; ++at) {
        left.at[at] -= right.at[at];
    }
    return left;
#endif
}
