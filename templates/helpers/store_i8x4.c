/* Writes four neighbours, each limited to what an int8_t holds. */
static inline void store_i8x4(int8_t *to, i32x4 four)
{
#if defined(__ARM_FEATURE_MVE) && defined(__OPTIMIZE__)
    __asm__("vqmovnb.s32 %q0, %q0\n\t"
            "vqmovnb.s16 %q0, %q0"
            : "+w"(four));
    vstrbq_s32(to, four);
#elif defined(__ARM_FEATURE_MVE)
    vstrbq_s32(to, vminq_s32(vmaxq_s32(four, vdupq_n_s32(-128)), vdupq_n_s32(127)));
#else
    for (int32_t at = 0; at < 4; ++at) {
        to[at] = (int8_t)saturate_i32(four.at[at], -128, 127);
    }
#endif
}
