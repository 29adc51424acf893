/* The lesser of two. NaN if either is NaN. */
static inline double min_f64(double a, double b)
{
    return (a < b || isnan(a)) ? a : b;
}
