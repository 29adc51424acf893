/* Adds the products of 16 channels with their taps, in pairs of taps.
 *
 * taps: where the channels of each tap begin, at: which of them are meant; w: words of all
 * channels, `step` from one pair to the next, two int16_t in each. The sums wrap around.
 */
static inline void dot_taps(int32_t sums[16], const int8_t *const *taps, int32_t at,
                            const int32_t *w, int32_t step, int32_t pairs)
{
#if defined(__SSE2__) && defined(__OPTIMIZE__)
#if defined(__AVX512F__) && defined(__AVX512VNNI__)
#define DOT_TAPS_WIDEN "vpmovsxbd %1, %0"
#define DOT_TAPS_ADD "vpdpwssd %1, %2, %0"
#define DOT_TAPS_IN "v"
    enum { LANES = 16 };
#elif defined(__AVX2__)
#define DOT_TAPS_WIDEN "vpmovsxbd %1, %0"
#define DOT_TAPS_ADD "vpmaddwd %1, %2, %1\n\tvpaddd %1, %0, %0"
#define DOT_TAPS_IN "x"
    enum { LANES = 8 };
#else
#define DOT_TAPS_WIDEN "movd %1, %0\n\tpunpcklbw %0, %0\n\tpunpcklwd %0, %0\n\tpsrad $24, %0"
#define DOT_TAPS_ADD "pmaddwd %2, %1\n\tpaddd %1, %0"
#define DOT_TAPS_IN "x"
    enum { LANES = 4 };
#endif
    typedef int32_t Words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
    typedef struct {
        int8_t at[LANES];
    } Bytes;

    for (int32_t lane = 0; lane < 16; lane += LANES) {
        Words sum = *(const Words *)&sums[lane];

        for (int32_t pair = 0; pair < pairs; ++pair) {
            const Bytes *const first = (const Bytes *)&taps[2 * pair][at + lane];
            const Bytes *const second = (const Bytes *)&taps[(2 * pair) + 1][at + lane];
            Words even;
            Words odd;

            __asm__(DOT_TAPS_WIDEN : "=" DOT_TAPS_IN(even) : "m"(*first));
            __asm__(DOT_TAPS_WIDEN : "=" DOT_TAPS_IN(odd) : "m"(*second));
            const Words weights = *(const Words *)&w[(step * pair) + at + lane];
            Words both = (even & 0xFFFF) | (odd << 16);

            __asm__(DOT_TAPS_ADD
                    : "+" DOT_TAPS_IN(sum), "+" DOT_TAPS_IN(both)
                    : DOT_TAPS_IN(weights));
        }
        *(Words *)&sums[lane] = sum;
    }
#undef DOT_TAPS_WIDEN
#undef DOT_TAPS_ADD
#undef DOT_TAPS_IN
#else
    for (int32_t pair = 0; pair < pairs; ++pair) {
        for (int32_t lane = 0; lane < 16; ++lane) {
            const int32_t weights = w[(step * pair) + at + lane];
            const int32_t even = taps[2 * pair][at + lane] * (int16_t)(weights & 0xFFFF);
            const int32_t odd = taps[(2 * pair) + 1][at + lane] * (weights >> 16);

            sums[lane] = (int32_t)((uint32_t)sums[lane] + (uint32_t)(even + odd));
        }
    }
#endif
}
