/* Marks for the counting plugin (counter.c), which sees the byte stores of this function and leaves
 * its instructions out: the address of each says four bits of the region, the lowest first. */
#include "board.h"

static volatile uint8_t cells[16];

/* Few registers at a time, so that it needs no stack, which is measured. */
#define MARK(bits)               \
    do {                         \
        cells[(bits) & 15U] = 1; \
        __asm__ volatile("" ::); \
    } while (0)

__attribute__((noinline)) void board_mark(uint32_t region)
{
    MARK(region);
    region >>= 4;
    MARK(region);
    region >>= 4;
    MARK(region);
    region >>= 4;
    MARK(region);
}

/* A progress takes eight cells, the core a ninth. */
#define MARK_LONG(core, progress)                        \
    do {                                                 \
        for (uint32_t part = 0; part < 8U; ++part) {     \
            MARK((progress) >> (4U * part));             \
        }                                                \
        MARK(core);                                      \
    } while (0)

__attribute__((noinline)) void board_signal(uint32_t progress)
{
    MARK_LONG(0U, progress);
}

__attribute__((noinline)) void board_wait(uint32_t core, uint32_t progress)
{
    MARK_LONG(core, progress);
}
