/* Shared area over joint area of two boxes, each given by two opposite corners. */
static inline float box_overlap(const float *box, const float *other)
{
    const float low[2] = {min_f32(box[0], box[2]), min_f32(box[1], box[3])};
    const float high[2] = {max_f32(box[0], box[2]), max_f32(box[1], box[3])};
    const float other_low[2] = {min_f32(other[0], other[2]), min_f32(other[1], other[3])};
    const float other_high[2] = {max_f32(other[0], other[2]), max_f32(other[1], other[3])};
    return intersection_over_union(low, high, other_low, other_high);
}
