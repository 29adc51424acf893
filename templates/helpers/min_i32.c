/* The lesser of two. */
static inline int32_t min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}
