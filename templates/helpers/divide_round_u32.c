/* Nearest integer to the quotient, half up; denominator > 0. */
static inline uint32_t divide_round_u32(uint32_t numerator, uint32_t denominator)
{
    const uint32_t quotient = numerator / denominator;
    const uint32_t rest = numerator % denominator;

    return rest != 0 && rest >= denominator - rest ? quotient + 1 : quotient;
}
