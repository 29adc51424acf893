/* Adds up the products of four channels with two pixels; see dot_blocks_2x2. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline void dot_blocks_4x2(i32x4 sums[2], const int8_t *x0, const int8_t *x1,
                                  const int8_t *w, int32_t blocks)
{
    int32_t found[4];

    dot_blocks_2x2(found, x0, x1, w, blocks);
    pair_i32x4(&sums[0], 0, found[0], found[2]);
    pair_i32x4(&sums[1], 0, found[1], found[3]);
    dot_blocks_2x2(found, x0, x1, &w[16], blocks);
    pair_i32x4(&sums[0], 1, found[0], found[2]);
    pair_i32x4(&sums[1], 1, found[1], found[3]);
}
