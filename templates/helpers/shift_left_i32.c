/* The value times 2^shift modulo 2^32; a shift of 32 or more gives 0. */
static inline int32_t shift_left_i32(int32_t a, int32_t shift)
{
    return shift < 0 || shift >= 32 ? 0 : (int32_t)((uint32_t)a << shift);
}
