/* Writes sixteen neighbours. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline void store_i32x16(int32_t *to, i32x16 value)
{
#if defined(__ARM_FEATURE_MVE) && defined(__OPTIMIZE__)
    /* The four must be neighbours, and so have fixed places. */
    register int32x4_t from0 __asm__("q4") = value.from0;
    register int32x4_t from1 __asm__("q5") = value.from1;
    register int32x4_t from2 __asm__("q6") = value.from2;
    register int32x4_t from3 __asm__("q7") = value.from3;

    __asm__ volatile("vst40.32 {q4, q5, q6, q7}, [%[to]]\n\t"
                     "vst41.32 {q4, q5, q6, q7}, [%[to]]\n\t"
                     "vst42.32 {q4, q5, q6, q7}, [%[to]]\n\t"
                     "vst43.32 {q4, q5, q6, q7}, [%[to]]"
                     :
                     : [to] "r"(to), "w"(from0), "w"(from1), "w"(from2), "w"(from3)
                     : "memory");
#elif defined(__ARM_FEATURE_MVE)
    const int32x4x4_t four = {{value.from0, value.from1, value.from2, value.from3}};

    vst4q_s32(to, four);
#else
    memcpy(to, value.at, sizeof value.at);
#endif
}
