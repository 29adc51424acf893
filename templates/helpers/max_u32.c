/* The greater of two. */
static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}
