/* The value limited to [low, high]. */
static inline uint64_t saturate_u64(uint64_t value, uint64_t low, uint64_t high)
{
    if (value < low) {
        return low;
    }
    return value > high ? high : value;
}
