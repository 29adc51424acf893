/* Writes four neighbouring int8_t: 0 and 2, then 1 and 3, as two int16_t in a word each. */
static inline void widen_four(int32_t to[2], const int8_t *from)
{
    int32_t word;

    memcpy(&word, from, sizeof word);
    to[0] = widen_even(word);
    to[1] = widen_odd(word);
}
