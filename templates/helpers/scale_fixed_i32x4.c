/* What scale_fixed gives, or beyond +-(2^28 - 1) any number beyond it of the same sign.
 *
 * The high word of a product is enough from a shift of 33 on. Where it is less, the value is first
 * shifted to the left by what is missing; a value too great for that keeps its sign.
 */
static inline i32x4 scale_fixed_i32x4(i32x4 value, i32x4 multiplier, i32x4 shift)
{
#if defined(__ARM_FEATURE_MVE)
    const int32x4_t all = vsubq_s32(vdupq_n_s32(32), shift);
    const int32x4_t right = vminq_s32(all, vdupq_n_s32(-1));
    const int32x4_t shifted = vqshlq_s32(value, vsubq_s32(all, right));

    return vrshlq_s32(vmulhq_s32(shifted, multiplier), right);
#else
    for (int32_t at = 0; at < 4; ++at) {
        value.at[at] = scale_fixed(value.at[at], multiplier.at[at], shift.at[at]);
    }
    return value;
#endif
}
