/* The value without its fraction, limited to what the type holds; NaN gives 0. */
static inline uint32_t f32_to_u32(float value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value <= 0.0F) {
        return 0U;
    }
    return value >= 4294967296.0F ? UINT32_MAX : (uint32_t)value;
}
