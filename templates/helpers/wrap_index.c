/* An index that counts from the end if it is negative. */
static inline int32_t wrap_index(int32_t i, int32_t n)
{
    return i < 0 ? i + n : i;
}
