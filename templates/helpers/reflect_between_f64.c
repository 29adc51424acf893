/* The value mirrored at both bounds as often as it takes to lie between them. */
static inline double reflect_between_f64(double value, double low, double high)
{
    const double range = high - low;
    if (!(range > 0.0)) {
        return low;
    }
    const double apart = (value < low) ? low - value : value - low;
    const double rest = fmod(apart, 2.0 * range);
    return (rest > range) ? high - (rest - range) : low + rest;
}
