/* The float4e2m1 in the low bits of a byte. */
static inline float float4e2m1_value(uint32_t byte)
{
    const float value = widen_float(byte & 0x7U, 1, 1);
    return ((byte & 0x8U) != 0U) ? -value : value;
}
