/* Remainder with the sign of the dividend; a division by 0 gives 0. */
static inline int32_t fmod_i32(int32_t a, int32_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}
