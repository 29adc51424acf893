/* The products of sixteen neighbours each. */
static inline i16x16 multiply_i8x16(const int8_t *x, const int8_t *w)
{
    i16x16 made;
#if defined(__ARM_FEATURE_MVE)
    const int8x16_t left = vldrbq_s8(x);
    const int8x16_t right = vldrbq_s8(w);

    made.even = vmullbq_int_s8(left, right);
    made.odd = vmulltq_int_s8(left, right);
#else
    for (int32_t at = 0; at < 16; ++at) {
        made.at[at] = (int16_t)(x[at] * w[at]);
    }
#endif
    return made;
}
