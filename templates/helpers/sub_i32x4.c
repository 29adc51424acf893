/* Differences, which wrap. */
static inline i32x4 sub_i32x4(i32x4 left, i32x4 right)
{
#if defined(__ARM_FEATURE_MVE)
    return vsubq_s32(left, right);
#else
    for (int32_t at = 0; at < 4; ++at) {
        left.at[at] = wrap_sub_i32(left.at[at], right.at[at]);
    }
    return left;
#endif
}
