/* The float8e4m3fn nearest to a value, half to even; NaN beyond the greatest. */
static inline uint8_t f32_to_float8e4m3fn(float value)
{
    const uint32_t bits = bits_of_f32(value);
    uint32_t rest = narrow_float(bits & 0x7FFFFFFFU, 3, 7);
    if (isnan(value)) {
        rest = 0x7FU;
    } else if (rest > 0x7EU) {
        rest = 0x7FU;
    }
    return (uint8_t)(((bits >> 24) & 0x80U) | rest);
}
