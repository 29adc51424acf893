/* The value mirrored at both bounds as often as it takes to lie between them. */
static inline float reflect_between_f32(float value, float low, float high)
{
    const float range = high - low;
    if (!(range > 0.0F)) {
        return low;
    }
    const float apart = (value < low) ? low - value : value - low;
    const float rest = fmodf(apart, 2.0F * range);
    return (rest > range) ? high - (rest - range) : low + rest;
}
