/* The value limited to [low, high]. */
static inline uint32_t saturate_u32(uint32_t value, uint32_t low, uint32_t high)
{
    if (value < low) {
        return low;
    }
    return value > high ? high : value;
}
