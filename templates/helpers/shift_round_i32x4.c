/* Each as shift_round gives it. */
static inline i32x4 shift_round_i32x4(i32x4 value, i32x4 shift)
{
#if defined(__ARM_FEATURE_MVE)
    return vrshlq_s32(value, vnegq_s32(shift));
#else
    for (int32_t at = 0; at < 4; ++at) {
        value.at[at] = shift_round(value.at[at], shift.at[at]);
    }
    return value;
#endif
}
