/* The value without its fraction, limited to what the type holds; NaN gives 0. */
static inline int64_t f32_to_i64(float value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value <= -9223372036854775808.0F) {
        return INT64_MIN;
    }
    return value >= 9223372036854775808.0F ? INT64_MAX : (int64_t)value;
}
