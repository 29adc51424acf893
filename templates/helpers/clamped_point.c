/* A place on an axis of `extent` points: 0 up to one point outside of it, -1 further out. */
static inline float clamped_point(float at, int32_t extent)
{
    if ((at < -1.0F) || (at > (float)extent)) {
        return -1.0F;
    }
    return saturate_f32(at, 0.0F, (float)(extent - 1));
}
