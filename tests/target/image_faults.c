/* A firmware with a slot for an image of weights, which the test fills and spoils as it likes.
 *
 * Sent are commands: 'L' with a size and bytes loads the slot; 'C' with a case spoils it, tries to
 * use it, runs, and writes what came of it; 'E' ends. */
#include "board.h"
#include "digits_int8.h"

#include <string.h>

enum { ROOM = 65536, FLIPS = 4 };

/* A case: where the image begins in the slot, how many bytes are said to be there, and up to four
 * places, each with the bits that are flipped there. */
typedef struct {
    uint32_t first, size_bytes;
    uint32_t at[FLIPS], bits[FLIPS];
} spoil_t;

static union {
    uint8_t bytes[ROOM];
    uint64_t align[ROOM / 8];
} slot __attribute__((aligned(64)));

static void flip(const spoil_t *spoil)
{
    for (uint32_t i = 0; i < FLIPS; ++i) {
        slot.bytes[spoil->first + spoil->at[i]] ^= (uint8_t)spoil->bits[i];
    }
}

/* Runs on inputs that are sent; without an image in use, nothing may be written. */
static void run(void)
{
    static int8_t image[DIGITS_INT8_IMAGE_LEN];
    static int8_t probabilities[DIGITS_INT8_PROBABILITIES_LEN];

    for (uint32_t i = 0; i < sizeof image; ++i) {
        image[i] = (int8_t)((i * 37U) % 256U);
    }
    memset(probabilities, 0x5A, sizeof probabilities);
    const int32_t status = digits_int8_run(image, probabilities);
    board_write(&status, sizeof status);
    board_write(probabilities, sizeof probabilities);
}

static void attempt(uint32_t loaded)
{
    spoil_t spoil;

    board_read(&spoil, sizeof spoil);
    memmove(slot.bytes + spoil.first, slot.bytes, loaded);
    flip(&spoil);
    const int32_t found[2] = {
        digits_int8_check(slot.bytes + spoil.first, spoil.size_bytes),
        digits_int8_use(slot.bytes + spoil.first, spoil.size_bytes),
    };
    board_write(found, sizeof found);
    run();
    flip(&spoil);
    memmove(slot.bytes, slot.bytes + spoil.first, loaded);
}

int board_program(void)
{
    uint32_t command, loaded = 0;

    run(); /* before any image is in use */
    for (;;) {
        board_read(&command, sizeof command);
        if (command == 'L') {
            board_read(&loaded, sizeof loaded);
            board_read(slot.bytes, loaded);
        } else if (command == 'C') {
            attempt(loaded);
        } else {
            return 0;
        }
    }
}
