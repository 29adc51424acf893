/* The greater of each two. */
static inline i32x4 max_i32x4(i32x4 left, i32x4 right)
{
#if defined(__ARM_FEATURE_MVE)
    return vmaxq_s32(left, right);
#else
    for (int32_t at = 0; at < 4; ++at) {
        left.at[at] = max_i32(left.at[at], right.at[at]);
    }
    return left;
#endif
}
