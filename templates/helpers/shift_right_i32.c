/* The value over 2^shift, rounded down; a shift of 32 or more, or below 0, leaves the sign. */
static inline int32_t shift_right_i32(int32_t a, int32_t shift)
{
    return a >> (shift < 0 || shift >= 32 ? 31 : shift);
}
