/* Shared area over joint area of two boxes, each low and high along two axes. */
static inline float intersection_over_union(const float *low, const float *high,
                                            const float *other_low, const float *other_high)
{
    float shared = 1.0F;
    float area = 1.0F;
    float other_area = 1.0F;
    for (int32_t d = 0; d < 2; ++d) {
        const float from = max_f32(low[d], other_low[d]);
        const float to = min_f32(high[d], other_high[d]);
        shared *= max_f32(to - from, 0.0F);
        area *= high[d] - low[d];
        other_area *= other_high[d] - other_low[d];
    }
    const float joint = area + other_area - shared;
    return (joint > 0.0F) ? shared / joint : 0.0F;
}
