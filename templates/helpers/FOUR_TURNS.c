/* Writes four turns of the loop that follows in a row, where they are instructions of Arm: of loops
 * that it makes vectors of too, gcc 12 computes other results.
 */
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && !defined(__clang__)
#define FOUR_TURNS() _Pragma("GCC unroll 4")
#else
#define FOUR_TURNS()
#endif
