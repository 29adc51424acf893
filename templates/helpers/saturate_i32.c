/* The value limited to [low, high]. */
static inline int32_t saturate_i32(int32_t value, int32_t low, int32_t high)
{
    if (value < low) {
        return low;
    }
    return value > high ? high : value;
}
