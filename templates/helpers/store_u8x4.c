/* Writes four neighbours, each limited to what an uint8_t holds. */
static inline void store_u8x4(uint8_t *to, i32x4 four)
{
#if defined(__ARM_FEATURE_MVE)
    const int16x8_t halves = vqmovnbq_s32(vreinterpretq_s16_s32(four), four);
    const uint8x16_t bytes = vqmovunbq_s16(vreinterpretq_u8_s16(halves), halves);

    vstrbq_u32(to, vreinterpretq_u32_u8(bytes));
#else
    for (int32_t at = 0; at < 4; ++at) {
        to[at] = (uint8_t)saturate_i32(four.at[at], 0, 255);
    }
#endif
}
