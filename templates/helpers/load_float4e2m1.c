/* Element `at` of a tensor of float4e2m1, two in a byte, the first in the low bits. */
static inline float load_float4e2m1(const uint8_t *tensor, int32_t at)
{
    return float4e2m1_value((uint32_t)tensor[at >> 1] >> (((uint32_t)at & 1U) << 2));
}
