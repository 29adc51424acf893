/* Adds the products of two channels with one number, which all of a pixel's are: see dot_plain. */
static inline void dot_2_same(int32_t sums[2], int32_t value, const int32_t *w, int32_t quads)
{
    int32_t spread[2];

    fill_quads(spread, 2, value, 1);
    for (int32_t quad = 0; quad < quads; ++quad) {
        dot_plain(sums, spread, &w[2 * quad], 1, 2, 1);
    }
}
