/* value * multiplier / 2^shift, rounded once, half up, limited to +-2^30; shift is in 1..62. */
static inline int32_t scale_fixed(int32_t value, int32_t multiplier, int32_t shift)
{
    const int64_t product = (int64_t)value * multiplier; /* magnitude at most 2^62 */
    const int32_t further = shift - 33; /* from the high word on, all but the last place */

    if (further < 0 || INTPTR_MAX > INT32_MAX) {
        return scale_fixed_little(product, shift);
    }
    return (((int32_t)(product >> 32) >> further) + 1) >> 1;
}
