/* Sixteen numbers: the even and the odd ones in a vector of MVE each, or an array. */
#if defined(__ARM_FEATURE_MVE)
typedef struct {
    int16x8_t even;
    int16x8_t odd;
} i16x16;
#else
typedef struct {
    int16_t at[16];
} i16x16;
#endif
