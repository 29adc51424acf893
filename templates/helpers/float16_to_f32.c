/* The value of a float16. */
static inline float float16_to_f32(uint16_t bits)
{
    const uint32_t rest = bits & 0x7FFFU;
    float value = widen_float(rest, 10, 15);
    if (rest >= 0x7C00U) {
        value = (rest > 0x7C00U) ? NAN : INFINITY;
    }
    return ((bits & 0x8000U) != 0U) ? -value : value;
}
