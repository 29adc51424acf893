/* Four neighbours, widened. */
static inline i32x4 load_i8x4(const int8_t *from)
{
#if defined(__ARM_FEATURE_MVE)
    return vldrbq_s32(from);
#else
    const i32x4 four = {{from[0], from[1], from[2], from[3]}};

    return four;
#endif
}
