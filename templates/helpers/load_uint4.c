/* Element `at` of a tensor of uint4, two in a byte, the first in the low bits. */
static inline int32_t load_uint4(const uint8_t *tensor, int32_t at)
{
    return uint4_value((uint32_t)tensor[at >> 1] >> (((uint32_t)at & 1U) << 2));
}
