/* Nearest integer to the quotient, half away from zero; denominator > 0. */
static inline int64_t divide_round_i64(int64_t numerator, int64_t denominator)
{
    const int64_t quotient = numerator / denominator;
    const int64_t rest = numerator % denominator;

    if (rest > 0 && rest >= denominator - rest) {
        return quotient + 1;
    }
    return rest < 0 && -rest >= denominator + rest ? quotient - 1 : quotient;
}
