/* The value without its fraction, limited to what the type holds; NaN gives 0. */
static inline uint64_t f64_to_u64(double value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value <= 0.0) {
        return 0U;
    }
    return value >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)value;
}
