/* Sum modulo 2^32. */
static inline int32_t wrap_add_i32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}
