/* Four neighbours, widened. */
static inline i32x4 load_u8x4(const uint8_t *from)
{
#if defined(__ARM_FEATURE_MVE)
    return vreinterpretq_s32_u32(vldrbq_u32(from));
#else
    const i32x4 four = {{from[0], from[1], from[2], from[3]}};

    return four;
#endif
}
