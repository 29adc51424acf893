/* The nearest index inside the axis. */
static inline int32_t clamp_index(int32_t i, int32_t n)
{
    if (i < 0) {
        return 0;
    }
    return i < n ? i : n - 1;
}
