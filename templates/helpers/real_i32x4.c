/* Integers as the nearest real numbers. */
static inline f32x4 real_i32x4(i32x4 four)
{
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
    return vcvtq_f32_s32(four);
#else
    f32x4 made;

    for (int32_t at = 0; at < 4; ++at) {
        made.at[at] = (float)lane_i32x4(four, at);
    }
    return made;
#endif
}
