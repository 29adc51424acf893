/* Writes four neighbours, each limited to what an int8_t holds. */
static inline void store_i8x4(int8_t *to, i32x4 four)
{
#if defined(__ARM_FEATURE_MVE)
    const int16x8_t halves = vqmovnbq_s32(vreinterpretq_s16_s32(four), four);
    const int8x16_t bytes = vqmovnbq_s16(vreinterpretq_s8_s16(halves), halves);

    vstrbq_s32(to, vreinterpretq_s32_s8(bytes));
#else
    for (int32_t at = 0; at < 4; ++at) {
        to[at] = (int8_t)saturate_i32(four.at[at], -128, 127);
    }
#endif
}
