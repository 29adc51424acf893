/* Nearest integer to the quotient, half up; denominator > 0. */
static inline uint64_t divide_round_u64(uint64_t numerator, uint64_t denominator)
{
    const uint64_t quotient = numerator / denominator;
    const uint64_t rest = numerator % denominator;

    return rest != 0 && rest >= denominator - rest ? quotient + 1 : quotient;
}
