/* The int2 in the low bits of a byte. */
static inline int32_t int2_value(uint32_t byte)
{
    const uint32_t bits = byte & 0x3U;
    return (int32_t)(bits ^ 2U) - 2;
}
