/* Writes four int8_t after four as widen_four does. pitch: from the first of four to the next. */
static inline void widen_fours(int32_t *to, const int8_t *from, int32_t pitch, int32_t count)
{
    FOUR_TURNS()
    for (int32_t at = 0; at < count; ++at) {
        widen_four(to, from);
        from += pitch;
        to += 2;
    }
}
