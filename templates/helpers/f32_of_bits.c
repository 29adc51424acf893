/* The float32 that has these bits. */
static inline float f32_of_bits(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } both;
    both.bits = bits;
    return both.value;
}
