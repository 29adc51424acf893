/* Writes one number so many times. */
static inline void fill_i16(int16_t *to, int16_t value, int32_t count)
{
    for (int32_t at = 0; at < count; ++at) {
        to[at] = value;
    }
}
