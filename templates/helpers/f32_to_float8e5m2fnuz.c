/* The float8e5m2fnuz nearest to a value, half to even; NaN beyond the greatest. */
static inline uint8_t f32_to_float8e5m2fnuz(float value)
{
    const uint32_t bits = bits_of_f32(value);
    const uint32_t rest = narrow_float(bits & 0x7FFFFFFFU, 2, 16);
    if (isnan(value) || rest > 0x7FU) {
        return 0x80U;
    }
    return (rest == 0U) ? 0U : (uint8_t)(((bits >> 24) & 0x80U) | rest);
}
