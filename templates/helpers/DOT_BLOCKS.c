/* Adds all blocks behind the first, eight in each turn of a loop, then the rest.
 *
 * add: of its block so many bytes from where the pixels are; further: moves these on by 128, as far
 * as an instruction can address.
 */
#define DOT_BLOCKS(blocks, add, further)                                                           \
    do {                                                                                           \
        const int32_t rest = (7 + (blocks)) % 8;                                                   \
                                                                                                   \
        for (int32_t block = 8; block < (blocks); block += 8) {                                    \
            add(16);                                                                               \
            add(32);                                                                               \
            add(48);                                                                               \
            add(64);                                                                               \
            add(80);                                                                               \
            add(96);                                                                               \
            add(112);                                                                              \
            further;                                                                               \
            add(0);                                                                                \
        }                                                                                          \
        if (rest > 0) {                                                                            \
            add(16);                                                                               \
        }                                                                                          \
        if (rest > 1) {                                                                            \
            add(32);                                                                               \
        }                                                                                          \
        if (rest > 2) {                                                                            \
            add(48);                                                                               \
        }                                                                                          \
        if (rest > 3) {                                                                            \
            add(64);                                                                               \
        }                                                                                          \
        if (rest > 4) {                                                                            \
            add(80);                                                                               \
        }                                                                                          \
        if (rest > 5) {                                                                            \
            add(96);                                                                               \
        }                                                                                          \
        if (rest > 6) {                                                                            \
            add(112);                                                                              \
        }                                                                                          \
    } while (0)
