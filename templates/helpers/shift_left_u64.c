/* The value times 2^shift modulo 2^64; a shift of 64 or more gives 0. */
static inline uint64_t shift_left_u64(uint64_t a, uint64_t shift)
{
    return shift >= 64 ? 0 : a << shift;
}
