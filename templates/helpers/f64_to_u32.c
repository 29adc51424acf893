/* The value without its fraction, limited to what the type holds; NaN gives 0. */
static inline uint32_t f64_to_u32(double value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value <= 0.0) {
        return 0U;
    }
    return value >= 4294967296.0 ? UINT32_MAX : (uint32_t)value;
}
