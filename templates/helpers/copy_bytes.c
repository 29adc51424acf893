/* Copies bytes of a constant number. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline void copy_bytes(int8_t *to, const int8_t *from, int32_t count)
{
#if defined(__ARM_FEATURE_MVE)
    if (count >= 16) {
        for (int32_t at = 0; at <= count - 16; at += 16) {
            vstrbq_s8(&to[at], vldrbq_s8(&from[at]));
        }
        if (count % 16 != 0) { /* some of them once more */
            vstrbq_s8(&to[count - 16], vldrbq_s8(&from[count - 16]));
        }
        return;
    }
#endif
    memcpy(to, from, (size_t)count);
}
