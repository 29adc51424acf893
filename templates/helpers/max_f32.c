/* The greater of two. NaN if either is NaN. */
static inline float max_f32(float a, float b)
{
    return (a > b || isnan(a)) ? a : b;
}
