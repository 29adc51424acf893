/* The value without its fraction, limited to what the type holds; NaN gives 0. */
static inline int64_t f64_to_i64(double value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value <= -9223372036854775808.0) {
        return INT64_MIN;
    }
    return value >= 9223372036854775808.0 ? INT64_MAX : (int64_t)value;
}
