/* Four numbers: a vector of MVE, or an array. */
#if defined(__ARM_FEATURE_MVE)
typedef int32x4_t i32x4;
#else
typedef struct {
    int32_t at[4];
} i32x4;
#endif
