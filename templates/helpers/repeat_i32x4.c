/* One number four times. */
static inline i32x4 repeat_i32x4(int32_t value)
{
#if defined(__ARM_FEATURE_MVE)
    return vdupq_n_s32(value);
#else
    const i32x4 four = {{value, value, value, value}};

    return four;
#endif
}
