/* The value over 2^shift, rounded down; a shift of 32 or more gives 0. */
static inline int32_t shift_right_i32(int32_t a, int32_t shift)
{
    return shift < 0 || shift >= 32 ? 0 : a >> shift;
}
