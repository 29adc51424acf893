/* Four neighbours. */
static inline i32x4 load_i32x4(const int32_t *from)
{
#if defined(__ARM_FEATURE_MVE)
    return vldrwq_s32(from);
#else
    const i32x4 four = {{from[0], from[1], from[2], from[3]}};

    return four;
#endif
}
