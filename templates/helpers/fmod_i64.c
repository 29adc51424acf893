/* Remainder with the sign of the dividend; a division by 0 gives 0. */
static inline int64_t fmod_i64(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}
