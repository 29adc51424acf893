/* Marks for a board with a counter: takes its time at each mark, and says the differences when
 * nothing is measured any more. */
#include "board.h"

enum { KEPT = 1024 };

static struct {
    uint32_t region;
    uint32_t time;
} kept[KEPT];
static uint32_t n_kept;

static void put_pair(uint32_t region, uint32_t time)
{
    const uint32_t numbers[2] = {region, time};
    board_put("dlb count");
    for (uint32_t i = 0; i < 2U; ++i) {
        char text[12];
        char *at = &text[sizeof text - 1U];
        uint32_t number = numbers[i];
        *at = '\0';
        do {
            *--at = (char)('0' + number % 10U);
            number /= 10U;
        } while (number > 0U);
        *--at = ' ';
        board_put(at);
    }
    board_put("\n");
}

void board_mark(uint32_t region)
{
    const uint32_t now = board_time();
    if (n_kept < KEPT) {
        kept[n_kept].region = region;
        kept[n_kept].time = now;
        ++n_kept;
    }
    if (region == 0U) {
        for (uint32_t i = 0; i + 1U < n_kept; ++i) {
            put_pair(kept[i].region, kept[i + 1U].time - kept[i].time);
        }
        n_kept = 0;
    }
}
