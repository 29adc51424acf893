/* The greater of two. */
static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
