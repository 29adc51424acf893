/* One number four times. */
static inline f32x4 repeat_f32x4(float value)
{
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
    return vdupq_n_f32(value);
#else
    const f32x4 four = {{value, value, value, value}};

    return four;
#endif
}
