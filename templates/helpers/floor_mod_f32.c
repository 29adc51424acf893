/* Remainder with the sign of the divisor, as numpy has it. */
static inline float floor_mod_f32(float a, float b)
{
    const float rest = fmodf(a, b);

    if (rest == 0.0F) {
        return copysignf(0.0F, b);
    }
    return (rest < 0.0F) != (b < 0.0F) ? rest + b : rest;
}
