/* The value of a float8e8m0: a power of two. */
static inline float float8e8m0_to_f32(uint8_t bits)
{
    if (bits == 0xFFU) {
        return NAN;
    }
    return f32_of_bits((bits == 0U) ? 0x400000U : (uint32_t)bits << 23);
}
