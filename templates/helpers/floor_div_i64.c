/* Quotient rounded to minus infinity; a division by 0 gives 0. */
static inline int64_t floor_div_i64(int64_t a, int64_t b)
{
    const int64_t quotient = divide_i64(a, b);
    const bool is_inexact = b != 0 && b != -1 && a % b != 0;

    return is_inexact && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}
