/* value * multiplier / 2^shift, rounded once, half up, limited to +-2^30; shift is in 1..62. */
static inline int32_t scale_fixed(int32_t value, int32_t multiplier, int32_t shift)
{
    const int64_t product = (int64_t)value * multiplier; /* magnitude at most 2^62 */

    if (shift > 32) {
        /* The lower word of the product is less than one unit of what is rounded. */
        return ((int32_t)(product >> 32) + (INT32_C(1) << (shift - 33))) >> (shift - 32);
    }
    return (int32_t)saturate_i64((product + (INT64_C(1) << (shift - 1))) >> shift, -1073741824,
                                 1073741824);
}
