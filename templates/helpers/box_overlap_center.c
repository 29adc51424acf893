/* Shared area over joint area of two boxes, each given by its centre and its size. */
static inline float box_overlap_center(const float *box, const float *other)
{
    const float low[2] = {box[0] - (box[2] / 2.0F), box[1] - (box[3] / 2.0F)};
    const float high[2] = {box[0] + (box[2] / 2.0F), box[1] + (box[3] / 2.0F)};
    const float other_low[2] = {other[0] - (other[2] / 2.0F), other[1] - (other[3] / 2.0F)};
    const float other_high[2] = {other[0] + (other[2] / 2.0F), other[1] + (other[3] / 2.0F)};
    return intersection_over_union(low, high, other_low, other_high);
}
