/* Sets element `at` of a tensor of uint2, four in a byte, the first in the low bits. */
static inline void store_uint2(uint8_t *tensor, int32_t at, int32_t value)
{
    const uint32_t place = ((uint32_t)at & 3U) << 1;
    const uint32_t others = tensor[at >> 2] & ~(0x3U << place);
    tensor[at >> 2] = (uint8_t)(others | (((uint32_t)value & 0x3U) << place));
}
