/* Sets element `at` of a tensor of uint4, two in a byte, the first in the low bits. */
static inline void store_uint4(uint8_t *tensor, int32_t at, int32_t value)
{
    const uint32_t place = ((uint32_t)at & 1U) << 2;
    const uint32_t others = tensor[at >> 1] & ~(0xFU << place);
    tensor[at >> 1] = (uint8_t)(others | (((uint32_t)value & 0xFU) << place));
}
