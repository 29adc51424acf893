/* The bits of a float32. */
static inline uint32_t bits_of_f32(float value)
{
    union {
        uint32_t bits;
        float value;
    } both;
    both.value = value;
    return both.bits;
}
