/* Writes quads of one number, as others are spread. */
static inline void fill_quads(int32_t *to, int32_t step, int32_t value, int32_t quads)
{
    const uint32_t even = (uint32_t)((255 * value) + 127) & 0xFFFFU;
    const uint32_t odd = (uint32_t)value & 0xFFFFU;

    for (int32_t quad = 0; quad < quads; ++quad) {
        to[0] = (int32_t)((even << 16) | even);
        to[1] = (int32_t)((odd << 16) | odd);
        to += step;
    }
}
