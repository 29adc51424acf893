/* product / 2^shift, half up, limited to +-2^30; shift is in 1..62. */
#if defined(__GNUC__) && INTPTR_MAX == INT32_MAX
__attribute__((cold)) /* where a register holds 32 bits, only of great numbers */
#endif
static inline int32_t scale_fixed_little(int64_t product, int32_t shift)
{
#if INTPTR_MAX == INT32_MAX
    const int64_t scaled = (product + (INT64_C(1) << (shift - 1))) >> shift;
#else
    const int64_t scaled = ((product >> (shift - 1)) + 1) >> 1; /* so vectors can be made of it */
#endif

    return (int32_t)saturate_i64(scaled, -1073741824, 1073741824);
}
