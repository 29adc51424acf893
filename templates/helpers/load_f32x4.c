/* Four neighbours. */
static inline f32x4 load_f32x4(const float *from)
{
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
    return vldrwq_f32(from);
#else
    const f32x4 four = {{from[0], from[1], from[2], from[3]}};

    return four;
#endif
}
