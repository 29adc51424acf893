/* Repeats the instructions of one quad for so many: four in each turn of a loop, then the rest.
 *
 * channels: words of w for each. places: what they work on; [w] is at end after the last turn, [p]
 * is free between quads. Behind it what else they overwrite.
 */
#define DOT_QUADS(quads, channels, one, places, ...)                                               \
    do {                                                                                           \
        const int32_t *const end = &w[(channels) * ((quads) & ~3)]; /* no register is free */      \
        const int32_t rest = (quads) % 4;                                                          \
                                                                                                   \
        if ((quads) > 3) {                                                                         \
            __asm__ volatile("1:\n\t" one one one one "ldr %[p], %[end]\n\t"                       \
                             "cmp %[w], %[p]\n\t"                                                  \
                             "bne 1b"                                                              \
                             : places                                                              \
                             : [end] "m"(end)                                                      \
                             : "cc", __VA_ARGS__);                                                 \
        }                                                                                          \
        if (rest == 1) {                                                                           \
            __asm__ volatile(one "" : places : : __VA_ARGS__);                                     \
        }                                                                                          \
        if (rest == 2) {                                                                           \
            __asm__ volatile(one one "" : places : : __VA_ARGS__);                                 \
        }                                                                                          \
        if (rest == 3) {                                                                           \
            __asm__ volatile(one one one "" : places : : __VA_ARGS__);                             \
        }                                                                                          \
    } while (0)
