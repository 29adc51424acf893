/* Quotient rounded to zero; a division by 0 gives 0. */
static inline int64_t divide_i64(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    return b == -1 ? wrap_sub_i64(0, a) : a / b;
}
