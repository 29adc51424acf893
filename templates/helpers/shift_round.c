/* value / 2^shift, half up; shift is in 1..30 and value below 2^31 - 2^(shift - 1). */
static inline int32_t shift_round(int32_t value, int32_t shift)
{
    return (value + (INT32_C(1) << (shift - 1))) >> shift;
}
