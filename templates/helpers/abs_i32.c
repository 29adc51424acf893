/* Magnitude; that of the least number is itself. */
static inline int32_t abs_i32(int32_t a)
{
    return a < 0 ? wrap_sub_i32(0, a) : a;
}
