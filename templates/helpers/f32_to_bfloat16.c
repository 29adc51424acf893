/* The bfloat16 nearest to a value, half to even. */
static inline uint16_t f32_to_bfloat16(float value)
{
    const uint32_t bits = bits_of_f32(value);
    if (isnan(value)) {
        return (uint16_t)((bits >> 16) | 0x40U);
    }
    return (uint16_t)((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}
