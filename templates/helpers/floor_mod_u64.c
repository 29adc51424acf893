/* Remainder; a division by 0 gives 0. */
static inline uint64_t floor_mod_u64(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : a % b;
}
