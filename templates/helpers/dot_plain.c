/* Adds the products of channels with pixels, four and four: 256 times each plus a constant, see
 * 'words' of the weights.
 *
 * A word of weights holds (256 w1 + w0, 256 w3 + w2). Its halves times (x1, x3), and (w0, w2) times
 * (256 x0 - x1 + 127, 256 x2 - x3 + 127), are 256 times the four products plus 127 (w0 + w2): two
 * instructions for four products, and a single one to unpack the weights.
 */
#ifdef __GNUC__
__attribute__((always_inline)) /* with its numbers of channels and pixels known */
#endif
static inline void dot_plain(int32_t *sums, const int32_t *x, const int32_t *w, int32_t quads,
                             int32_t channels, int32_t pixels)
{
    for (int32_t quad = 0; quad < quads; ++quad) {
        for (int32_t at = 0; at < channels * pixels; ++at) {
            const int32_t weights = w[(channels * quad) + (at % channels)];
            const int32_t *const pair = &x[2 * ((pixels * quad) + (at / channels))];
            const int32_t sum = multiply_pairs(pair[0], widen_even(weights), sums[at]);

            sums[at] = multiply_pairs(pair[1], weights, sum);
        }
    }
}
