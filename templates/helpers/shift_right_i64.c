/* The value over 2^shift, rounded down; a shift of 64 or more gives 0. */
static inline int64_t shift_right_i64(int64_t a, int64_t shift)
{
    return shift < 0 || shift >= 64 ? 0 : a >> shift;
}
