/* Writes bytes of a constant number, all the same. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline void fill_bytes(int8_t *to, int32_t value, int32_t count)
{
#if defined(__ARM_FEATURE_MVE)
    if (count >= 16) {
        const int8x16_t bytes = vdupq_n_s8((int8_t)value);

        for (int32_t at = 0; at <= count - 16; at += 16) {
            vstrbq_s8(&to[at], bytes);
        }
        if (count % 16 != 0) { /* some of them once more */
            vstrbq_s8(&to[count - 16], bytes);
        }
        return;
    }
#endif
    memset(to, value, (size_t)count);
}
