/* Magnitude; that of the least number is itself. */
static inline int64_t abs_i64(int64_t a)
{
    return a < 0 ? wrap_sub_i64(0, a) : a;
}
