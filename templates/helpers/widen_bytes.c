/* Widens so many int8_t to int16_t. */
static inline void widen_bytes(int16_t *to, const int8_t *from, int32_t count)
{
    for (int32_t at = 0; at < count; ++at) {
        to[at] = from[at];
    }
}
