/* The value over 2^shift, rounded down; a shift of 64 or more gives 0. */
static inline uint64_t shift_right_u64(uint64_t a, uint64_t shift)
{
    return shift >= 64 ? 0 : a >> shift;
}
