/* Repeats the instructions of one quad for so many.
 *
 * channels: words of w for each. places: what they work on; [w] is at end after the last. Behind it
 * what else they overwrite.
 */
#define DOT_QUADS(quads, channels, one, places, ...)                                               \
    do {                                                                                           \
        const int32_t *const end = &w[(channels) * (quads)];                                       \
                                                                                                   \
        while (w != end) {                                                                         \
            __asm__ volatile(one "" : places : : __VA_ARGS__);                                     \
        }                                                                                          \
    } while (0)
