/* The value times 2^shift modulo 2^32; a shift of 32 or more gives 0. */
static inline uint32_t shift_left_u32(uint32_t a, uint32_t shift)
{
    return shift >= 32 ? 0 : a << shift;
}
