/* Writes four neighbours, each limited to what an uint8_t holds. */
static inline void store_u8x4(uint8_t *to, i32x4 four)
{
#if defined(__ARM_FEATURE_MVE)
    const int32x4_t limited = vminq_s32(vmaxq_s32(four, vdupq_n_s32(0)), vdupq_n_s32(255));

    vstrbq_u32(to, vreinterpretq_u32_s32(limited));
#else
    for (int32_t at = 0; at < 4; ++at) {
        to[at] = (uint8_t)saturate_i32(four.at[at], 0, 255);
    }
#endif
}
