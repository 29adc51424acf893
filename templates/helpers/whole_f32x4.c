/* Real numbers that int32_t holds, without their fractions. */
static inline i32x4 whole_f32x4(f32x4 four)
{
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
    return vcvtq_s32_f32(four);
#else
    int32_t made[4];

    for (int32_t at = 0; at < 4; ++at) {
        made[at] = (int32_t)four.at[at];
    }
    return load_i32x4(made);
#endif
}
