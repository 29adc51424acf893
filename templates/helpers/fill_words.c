/* Writes the same word so many times. */
static inline void fill_words(int32_t *to, int32_t word, int32_t count)
{
    for (int32_t at = 0; at < count; ++at) {
        to[at] = word;
    }
}
