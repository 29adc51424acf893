/* Element `at` of a tensor of int2, four in a byte, the first in the low bits. */
static inline int32_t load_int2(const uint8_t *tensor, int32_t at)
{
    return int2_value((uint32_t)tensor[at >> 2] >> (((uint32_t)at & 3U) << 1));
}
