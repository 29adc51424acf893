/* The value of a bfloat16. */
static inline float bfloat16_to_f32(uint16_t bits)
{
    return f32_of_bits((uint32_t)bits << 16);
}
