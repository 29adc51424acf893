/* The float8e8m0 nearest to a value, half up; NaN of what is not positive or too great. */
static inline uint8_t f32_to_float8e8m0(float value)
{
    const uint32_t bits = bits_of_f32(value);
    if (!(value > 0.0F) || bits >= 0x7F400000U) {
        return 0xFFU;
    }
    if (bits < 0x800000U) {
        return (uint8_t)((bits > 0x400000U) ? 1U : 0U);
    }
    return (uint8_t)((bits + 0x400000U) >> 23);
}
