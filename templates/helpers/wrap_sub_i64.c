/* Difference modulo 2^64. */
static inline int64_t wrap_sub_i64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
