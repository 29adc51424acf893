/* One of four numbers. */
static inline int32_t lane_i32x4(i32x4 four, int32_t at)
{
#if defined(__ARM_FEATURE_MVE)
    return four[at];
#else
    return four.at[at];
#endif
}
