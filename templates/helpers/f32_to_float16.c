/* The float16 nearest to a value, half to even. */
static inline uint16_t f32_to_float16(float value)
{
    const uint32_t bits = bits_of_f32(value);
    uint32_t rest = narrow_float(bits & 0x7FFFFFFFU, 10, 15);
    if (isnan(value)) {
        rest = 0x7E00U;
    } else if (rest > 0x7C00U) {
        rest = 0x7C00U;
    }
    return (uint16_t)(((bits >> 16) & 0x8000U) | rest);
}
