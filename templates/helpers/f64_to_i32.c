/* The value without its fraction, limited to what the type holds; NaN gives 0. */
static inline int32_t f64_to_i32(double value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value <= -2147483648.0) {
        return INT32_MIN;
    }
    return value >= 2147483648.0 ? INT32_MAX : (int32_t)value;
}
