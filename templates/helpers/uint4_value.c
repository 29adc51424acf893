/* The uint4 in the low bits of a byte. */
static inline int32_t uint4_value(uint32_t byte)
{
    const uint32_t bits = byte & 0xFU;
    return (int32_t)bits;
}
