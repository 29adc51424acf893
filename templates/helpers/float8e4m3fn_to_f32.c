/* The value of a float8e4m3fn. */
static inline float float8e4m3fn_to_f32(uint8_t bits)
{
    const uint32_t rest = bits & 0x7FU;
    float value = widen_float(rest, 3, 7);
    if (rest == 0x7FU) {
        value = NAN;
    }
    return ((bits & 0x80U) != 0U) ? -value : value;
}
