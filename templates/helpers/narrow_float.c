/* Exponent and fraction of a narrow float, as the bits of a float32 without its sign round to them,
 * half to even. The exponent may be greater than the narrow float has. */
static inline uint32_t narrow_float(uint32_t bits, int32_t fraction_bits, int32_t bias)
{
    const int32_t exponent = (int32_t)(bits >> 23) - 127 + bias;
    const uint32_t whole = (bits & 0x7FFFFFU) | 0x800000U;
    int32_t shift = 23 - fraction_bits;
    uint32_t from = bits;
    if (exponent < 1) {
        shift += 1 - exponent;
        from = whole;
    }
    if (shift > 24) {
        return 0U;
    }
    const uint32_t odd = (from >> shift) & 1U;
    const uint32_t rounded = (from + (1U << (shift - 1)) - 1U + odd) >> shift;
    return (exponent < 1) ? rounded : rounded - ((uint32_t)(127 - bias) << fraction_bits);
}
