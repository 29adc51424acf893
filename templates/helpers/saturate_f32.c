/* The value limited to [low, high]. NaN gives low. */
static inline float saturate_f32(float value, float low, float high)
{
    if (!(value > low)) {
        return low;
    }
    return value < high ? value : high;
}
