/* Remainder with the sign of the divisor; a division by 0 gives 0. */
static inline int64_t floor_mod_i64(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) {
        return 0;
    }
    const int64_t rest = a % b;

    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
