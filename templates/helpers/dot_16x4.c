/* Adds the products of 16 channels with 4 points, in pairs of taps.
 *
 * x: so many pairs of each point; w: words of 16 channels, pair by pair, two int16_t in each. Sums:
 * 16 of each point; they wrap around.
 */
static inline void dot_16x4(int32_t sums[64], const int16_t *x, const int32_t *w, int32_t pairs)
{
#if defined(__SSE2__) && defined(__OPTIMIZE__)
#if defined(__AVX512F__) && defined(__AVX512BW__)
/* Adds the products of one point. */
#ifdef __AVX512VNNI__
#define DOT_16X4_POINT(sum, at)                                                                    \
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(from[(at) * pairs]))
#else
#define DOT_16X4_POINT(sum, at)                                                                    \
    __asm__("vpbroadcastd %2, %%zmm31\n\t"                                                         \
            "vpmaddwd %%zmm31, %1, %%zmm31\n\t"                                                    \
            "vpaddd %%zmm31, %0, %0"                                                               \
            : "+v"(sum)                                                                            \
            : "v"(weights), "m"(from[(at) * pairs])                                                \
            : "xmm31")
#endif
    enum { LANES = 16 };
#elif defined(__AVX2__)
#define DOT_16X4_POINT(sum, at)                                                                    \
    __asm__("vpbroadcastd %2, %%ymm15\n\t"                                                         \
            "vpmaddwd %%ymm15, %1, %%ymm15\n\t"                                                    \
            "vpaddd %%ymm15, %0, %0"                                                               \
            : "+x"(sum)                                                                            \
            : "x"(weights), "m"(from[(at) * pairs])                                                \
            : "xmm15")
    enum { LANES = 8 };
#else
#define DOT_16X4_POINT(sum, at)                                                                    \
    __asm__("movd %2, %%xmm15\n\t"                                                                 \
            "pshufd $0, %%xmm15, %%xmm15\n\t"                                                      \
            "pmaddwd %1, %%xmm15\n\t"                                                              \
            "paddd %%xmm15, %0"                                                                    \
            : "+x"(sum)                                                                            \
            : "x"(weights), "m"(from[(at) * pairs])                                                \
            : "xmm15")
    enum { LANES = 4 };
#endif
    typedef int32_t Words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
    typedef int32_t Pair __attribute__((aligned(2), may_alias));

    for (int32_t lane = 0; lane < 16; lane += LANES) {
        Words sum0 = *(const Words *)&sums[lane];
        Words sum1 = *(const Words *)&sums[lane + 16];
        Words sum2 = *(const Words *)&sums[lane + 32];
        Words sum3 = *(const Words *)&sums[lane + 48];

        for (int32_t pair = 0; pair < pairs; ++pair) {
            const Words weights = *(const Words *)&w[(16 * pair) + lane];
            const Pair *const from = (const Pair *)&x[2 * pair];

            DOT_16X4_POINT(sum0, 0);
            DOT_16X4_POINT(sum1, 1);
            DOT_16X4_POINT(sum2, 2);
            DOT_16X4_POINT(sum3, 3);
        }
        *(Words *)&sums[lane] = sum0;
        *(Words *)&sums[lane + 16] = sum1;
        *(Words *)&sums[lane + 32] = sum2;
        *(Words *)&sums[lane + 48] = sum3;
    }
#undef DOT_16X4_POINT
#else
    for (int32_t pair = 0; pair < pairs; ++pair) {
        for (int32_t at = 0; at < 64; ++at) {
            const int16_t *const from = &x[2 * (((at / 16) * pairs) + pair)];
            const int32_t weights = w[(16 * pair) + (at % 16)];
            const int32_t even = from[0] * (int16_t)(weights & 0xFFFF);
            const int32_t odd = from[1] * (weights >> 16);

            sums[at] = (int32_t)((uint32_t)sums[at] + (uint32_t)(even + odd));
        }
    }
#endif
}
