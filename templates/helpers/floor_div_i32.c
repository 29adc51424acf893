/* Quotient rounded to minus infinity; a division by 0 gives 0. */
static inline int32_t floor_div_i32(int32_t a, int32_t b)
{
    const int32_t quotient = divide_i32(a, b);
    const bool is_inexact = b != 0 && b != -1 && a % b != 0;

    return is_inexact && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}
