/* The value times 2^shift modulo 2^64; a shift of 64 or more gives 0. */
static inline int64_t shift_left_i64(int64_t a, int64_t shift)
{
    return shift < 0 || shift >= 64 ? 0 : (int64_t)((uint64_t)a << shift);
}
