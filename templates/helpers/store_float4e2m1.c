/* Sets element `at` of a tensor of float4e2m1, two in a byte, the first in the low bits. */
static inline void store_float4e2m1(uint8_t *tensor, int32_t at, float value)
{
    const uint32_t place = ((uint32_t)at & 1U) << 2;
    const uint32_t others = tensor[at >> 1] & ~(0xFU << place);
    tensor[at >> 1] = (uint8_t)(others | ((f32_to_float4e2m1(value) & 0xFU) << place));
}
