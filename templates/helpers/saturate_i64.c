/* The value limited to [low, high]. */
static inline int64_t saturate_i64(int64_t value, int64_t low, int64_t high)
{
    if (value < low) {
        return low;
    }
    return value > high ? high : value;
}
