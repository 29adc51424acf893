/* The float4e2m1 nearest to a value, half to even; the greatest beyond it. */
static inline uint32_t f32_to_float4e2m1(float value)
{
    const uint32_t bits = bits_of_f32(value);
    uint32_t rest = narrow_float(bits & 0x7FFFFFFFU, 1, 1);
    if (isnan(value)) {
        rest = 0U;
    } else if (rest > 0x7U) {
        rest = 0x7U;
    }
    return ((bits >> 28) & 0x8U) | rest;
}
