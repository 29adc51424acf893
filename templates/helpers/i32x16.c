/* Sixteen numbers: every fourth in a vector of MVE, or an array. */
#if defined(__ARM_FEATURE_MVE)
typedef struct {
    int32x4_t from0;
    int32x4_t from1;
    int32x4_t from2;
    int32x4_t from3;
} i32x16;
#else
typedef struct {
    int32_t at[16];
} i32x16;
#endif
