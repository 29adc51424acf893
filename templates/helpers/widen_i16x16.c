/* Sixteen numbers, widened. */
static inline i32x16 widen_i16x16(i16x16 value)
{
    i32x16 made;
#if defined(__ARM_FEATURE_MVE)
    made.val[0] = vmovlbq_s16(value.even);
    made.val[1] = vmovlbq_s16(value.odd);
    made.val[2] = vmovltq_s16(value.even);
    made.val[3] = vmovltq_s16(value.odd);
#else
    for (int32_t at = 0; at < 16; ++at) {
        made.at[at] = value.at[at];
    }
#endif
    return made;
}
