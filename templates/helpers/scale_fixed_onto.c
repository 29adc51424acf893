/* value * multiplier / 2^shift, half up, limited to +-2^30, plus an 8-bit offset. */
static inline int32_t scale_fixed_onto(int32_t offset, int32_t value, int32_t multiplier,
                                       int32_t shift)
{
    const int64_t product = (int64_t)value * multiplier; /* magnitude at most 2^62 */
    const int32_t further = shift - 33; /* from the high word on, all but the last place */

    if (further < 0 || INTPTR_MAX > INT32_MAX) {
        return scale_fixed_little(product, shift) + offset;
    }
    return (((int32_t)(product >> 32) >> further) + (1 + (2 * offset))) >> 1;
}
