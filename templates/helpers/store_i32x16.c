/* Writes sixteen neighbours. */
static inline void store_i32x16(int32_t *to, i32x16 value)
{
#if defined(__ARM_FEATURE_MVE)
    vst4q_s32(to, value);
#else
    memcpy(to, value.at, sizeof value.at);
#endif
}
