/* The value limited to [low, high]. NaN gives low. */
static inline double saturate_f64(double value, double low, double high)
{
    if (!(value > low)) {
        return low;
    }
    return value < high ? value : high;
}
