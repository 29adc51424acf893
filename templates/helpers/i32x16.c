/* Sixteen numbers: each fourth in a vector of MVE, or an array. */
#if defined(__ARM_FEATURE_MVE)
typedef int32x4x4_t i32x16;
#else
typedef struct {
    int32_t at[16];
} i32x16;
#endif
