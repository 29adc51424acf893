/* The float32 of a narrow float without its sign: exponent and fraction, no infinity and no NaN. */
static inline float widen_float(uint32_t bits, int32_t fraction_bits, int32_t bias)
{
    const int32_t exponent = (int32_t)(bits >> fraction_bits);
    const uint32_t fraction = bits & ((1U << fraction_bits) - 1U);
    const int32_t scale = ((exponent > 0) ? exponent : 1) - bias - fraction_bits;
    const uint32_t whole = fraction + ((exponent > 0) ? (1U << fraction_bits) : 0U);
    return (float)whole * f32_of_bits((uint32_t)(scale + 127) << 23);
}
