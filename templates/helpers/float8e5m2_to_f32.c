/* The value of a float8e5m2. */
static inline float float8e5m2_to_f32(uint8_t bits)
{
    const uint32_t rest = bits & 0x7FU;
    float value = widen_float(rest, 2, 15);
    if (rest >= 0x7CU) {
        value = (rest > 0x7CU) ? NAN : INFINITY;
    }
    return ((bits & 0x80U) != 0U) ? -value : value;
}
