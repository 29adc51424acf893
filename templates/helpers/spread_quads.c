/* Writes int8_t numbers, four at a time, in the form that sums of products read.
 *
 * Of x0 x1 x2 x3: one word (256 x0 - x1 + 127, 256 x2 - x3 + 127) and one word (x1, x3), as
 * int16_t; the first always fits. step: words from one quad to the next.
 */
static inline void spread_quads(int32_t *to, int32_t step, const int8_t *from, int32_t quads)
{
    FOUR_TURNS()
    for (int32_t quad = 0; quad < quads; ++quad) {
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
        int32_t word;
        int32_t even;
        int32_t odd;

        memcpy(&word, &from[4 * quad], sizeof word);
        __asm__("uxtb16 %[even], %[word]\n\t"
                "sxtb16 %[odd], %[word], ror #8\n\t"
                "add %[even], %[half], %[even], lsl #8\n\t"
                "ssub16 %[even], %[even], %[odd]"
                : [even] "=&r"(even), [odd] "=&r"(odd)
                : [word] "r"(word), [half] "r"(0x007F007F));
        to[0] = even;
        to[1] = odd;
#else
        const int32_t low = (256 * from[4 * quad]) - from[(4 * quad) + 1] + 127;
        const int32_t high = (256 * from[(4 * quad) + 2]) - from[(4 * quad) + 3] + 127;

        to[0] = (int32_t)(((uint32_t)high << 16) | ((uint32_t)low & 0xFFFFU));
        to[1] = (int32_t)(((uint32_t)from[(4 * quad) + 3] << 16) |
                          ((uint32_t)from[(4 * quad) + 1] & 0xFFFFU));
#endif
        to += step;
    }
}
