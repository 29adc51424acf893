/* The sums of two products of sixteen neighbours each; no w is -128, so that they fit. */
static inline i16x16 multiply_two_i8x16(const int8_t *x0, const int8_t *w0, const int8_t *x1,
                                        const int8_t *w1)
{
    i16x16 first = multiply_i8x16(x0, w0);
    const i16x16 second = multiply_i8x16(x1, w1);

#if defined(__ARM_FEATURE_MVE)
    first.even = vaddq_s16(first.even, second.even);
    first.odd = vaddq_s16(first.odd, second.odd);
#else
    for (int32_t at = 0; at < 16; ++at) {
        first.at[at] = (int16_t)(first.at[at] + second.at[at]);
    }
#endif
    return first;
}
