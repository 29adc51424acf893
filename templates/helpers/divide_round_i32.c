/* Nearest integer to the quotient, half away from zero; denominator > 0. */
static inline int32_t divide_round_i32(int32_t numerator, int32_t denominator)
{
    const int32_t quotient = numerator / denominator;
    const int32_t rest = numerator % denominator;

    if (rest > 0 && rest >= denominator - rest) {
        return quotient + 1;
    }
    return rest < 0 && -rest >= denominator + rest ? quotient - 1 : quotient;
}
