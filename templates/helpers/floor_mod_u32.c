/* Remainder; a division by 0 gives 0. */
static inline uint32_t floor_mod_u32(uint32_t a, uint32_t b)
{
    return b == 0 ? 0 : a % b;
}
