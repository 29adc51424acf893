/* product / 2^shift, half up, limited to +-2^30, where the low word matters; shift is in 1..32. */
#ifdef __GNUC__
__attribute__((cold)) /* rare */
#endif
static inline int32_t scale_fixed_little(int64_t product, int32_t shift)
{
    const int64_t scaled = (product + (INT64_C(1) << (shift - 1))) >> shift;

    return (int32_t)saturate_i64(scaled, -1073741824, 1073741824);
}
