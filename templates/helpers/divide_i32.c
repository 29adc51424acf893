/* Quotient rounded to zero; a division by 0 gives 0. */
static inline int32_t divide_i32(int32_t a, int32_t b)
{
    if (b == 0) {
        return 0;
    }
    return b == -1 ? wrap_sub_i32(0, a) : a / b;
}
