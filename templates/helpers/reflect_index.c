/* The index mirrored at both ends of the axis, which are not repeated. */
static inline int32_t reflect_index(int32_t i, int32_t n)
{
    if (n == 1) {
        return 0;
    }
    const int32_t period = 2 * (n - 1);
    const int32_t turned = floor_mod_i32(i, period);

    return min_i32(turned, period - turned);
}
