/* The lesser of two. NaN if either is NaN. */
static inline float min_f32(float a, float b)
{
    return (a < b || isnan(a)) ? a : b;
}
