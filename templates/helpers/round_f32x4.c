/* The nearest integers, of two equally near the even one. */
static inline f32x4 round_f32x4(f32x4 four)
{
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
    return vrndnq_f32(four);
#else
    for (int32_t at = 0; at < 4; ++at) {
        four.at[at] = rintf(four.at[at]);
    }
    return four;
#endif
}
