/* The value without its fraction, limited to what the type holds; NaN gives 0. */
static inline int32_t f32_to_i32(float value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value <= -2147483648.0F) {
        return INT32_MIN;
    }
    return value >= 2147483648.0F ? INT32_MAX : (int32_t)value;
}
