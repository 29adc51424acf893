/* Four numbers: a vector of MVE, or an array. */
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
typedef float32x4_t f32x4;
#else
typedef struct {
    float at[4];
} f32x4;
#endif
