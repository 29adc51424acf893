/* The greatest of the shares that the four points around a place inside a map have in it. */
static inline float greatest_share(const float *map, int32_t rows, int32_t columns, float y,
                                   float x)
{
    const int32_t row = f32_to_i32(y);
    const int32_t column = f32_to_i32(x);
    const float part_y = y - (float)row;
    const float part_x = x - (float)column;
    float greatest = (1.0F - part_y) * (1.0F - part_x) * map[(row * columns) + column];
    for (int32_t q = 1; q < 4; ++q) {
        const int32_t down = clamp_index(row + (q / 2), rows);
        const int32_t right = clamp_index(column + (q % 2), columns);
        const float share =
            ((q / 2 == 1) ? part_y : 1.0F - part_y) * ((q % 2 == 1) ? part_x : 1.0F - part_x);
        greatest = max_f32(greatest, share * map[(down * columns) + right]);
    }
    return greatest;
}
