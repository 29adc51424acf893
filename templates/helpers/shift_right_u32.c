/* The value over 2^shift, rounded down; a shift of 32 or more gives 0. */
static inline uint32_t shift_right_u32(uint32_t a, uint32_t shift)
{
    return shift >= 32 ? 0 : a >> shift;
}
