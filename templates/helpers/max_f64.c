/* The greater of two. NaN if either is NaN. */
static inline double max_f64(double a, double b)
{
    return (a > b || isnan(a)) ? a : b;
}
