/* Remainder with the sign of the divisor; a division by 0 gives 0. */
static inline int32_t floor_mod_i32(int32_t a, int32_t b)
{
    if (b == 0 || b == -1) {
        return 0;
    }
    const int32_t rest = a % b;

    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
