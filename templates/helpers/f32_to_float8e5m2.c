/* The float8e5m2 nearest to a value, half to even; infinite beyond the greatest. */
static inline uint8_t f32_to_float8e5m2(float value)
{
    const uint32_t bits = bits_of_f32(value);
    uint32_t rest = narrow_float(bits & 0x7FFFFFFFU, 2, 15);
    if (isnan(value)) {
        rest = 0x7EU;
    } else if (rest > 0x7CU) {
        rest = 0x7CU;
    }
    return (uint8_t)(((bits >> 24) & 0x80U) | rest);
}
