/* value / 2^shift, half up, plus an 8-bit offset; shift is in 1..30. */
static inline int32_t shift_round_onto(int32_t offset, int32_t value, int32_t shift)
{
    return ((value >> (shift - 1)) + (1 + (2 * offset))) >> 1;
}
