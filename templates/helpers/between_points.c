/* A map of rows and columns between its points; points outside of it count as 0. */
static inline float between_points(const float *map, int32_t rows, int32_t columns, float y,
                                   float x)
{
    const float low_y = floorf(y);
    const float low_x = floorf(x);
    float total = 0.0F;
    for (int32_t i = 0; i < 2; ++i) {
        for (int32_t j = 0; j < 2; ++j) {
            const int32_t row = f32_to_i32(low_y) + i;
            const int32_t column = f32_to_i32(low_x) + j;
            if ((row >= 0) && (row < rows) && (column >= 0) && (column < columns)) {
                const float share_y = (i == 0) ? 1.0F - (y - low_y) : y - low_y;
                const float share_x = (j == 0) ? 1.0F - (x - low_x) : x - low_x;
                total += share_y * share_x * map[(row * columns) + column];
            }
        }
    }
    return total;
}
