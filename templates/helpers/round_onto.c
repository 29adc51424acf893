/* The nearest integer, of two equally near the even one, plus an offset, limited to [low, high].
 *
 * NaN gives low. offset, low, high: within +-2^14.
 */
static inline int32_t round_onto(int32_t offset, float value, int32_t low, int32_t high)
{
#if defined(__ARM_FP) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__)
    int32_t nearest;

    if (isnan(value)) {
        return low;
    }
    __asm__("vcvtr.s32.f32 %1, %1\n\t"
            "vmov %0, %1\n\t"
            "ssat %0, #16, %0"
            : "=r"(nearest), "+t"(value));
    return saturate_i32(nearest + offset, low, high);
#else
    const float sum = rintf(value) + (float)offset;

    return (int32_t)saturate_f32(sum, (float)low, (float)high);
#endif
}
