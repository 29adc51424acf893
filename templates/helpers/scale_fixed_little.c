/* product / 2^shift, half up, limited to +-2^30, where the low word matters; shift is in 1..32. */
#if defined(__GNUC__) && INTPTR_MAX == INT32_MAX
__attribute__((cold)) /* rare where a register holds 32 bits */
#endif
static inline int32_t scale_fixed_little(int64_t product, int32_t shift)
{
    const int64_t scaled = ((product >> (shift - 1)) + 1) >> 1;

    return (int32_t)saturate_i64(scaled, -1073741824, 1073741824);
}
