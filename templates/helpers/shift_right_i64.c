/* The value over 2^shift, rounded down; a shift of 64 or more, or below 0, leaves the sign. */
static inline int64_t shift_right_i64(int64_t a, int64_t shift)
{
    return a >> (shift < 0 || shift >= 64 ? 63 : shift);
}
