/* A firmware whose weights lie in flash of their own: it checks them, says what they are, and
 * classifies one image. */
#include "board.h"
#include "digits_int8.h"

#include <stdint.h>

/* Where the weights are flashed, as dlbuild.yaml has it, and the room that is kept for them. */
#define SLOT ((const void *)0x00300000U)
#define SLOT_BYTES (16U * 1024U)

/* The first image of ../digits/digits_samples.npz, a two, in sixteenths. */
static const uint8_t image[DIGITS_INT8_IMAGE_LEN] = {
    0, 4,  16, 15, 2,  0,  0,  0, /* */
    0, 11, 15, 15, 7,  0,  0,  0, /* */
    0, 9,  10, 6,  14, 0,  0,  0, /* */
    0, 0,  0,  7,  15, 0,  0,  0, /* */
    0, 0,  0,  13, 10, 0,  0,  0, /* */
    0, 0,  1,  16, 7,  2,  2,  0, /* */
    0, 1,  12, 16, 15, 16, 15, 0, /* */
    0, 4,  16, 16, 16, 12, 11, 0, /* */
};

static void say(const char *text, uint32_t number)
{
    char digits[12];
    uint32_t at = sizeof digits - 1U;

    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + (number % 10U));
        number /= 10U;
    } while (number != 0U);
    board_put(text);
    board_put(&digits[at]);
    board_put("\n");
}

static const char *fault_of(int status)
{
    switch (status) {
    case DIGITS_INT8_TRUNCATED:
        return "more weights than the slot has bytes";
    case DIGITS_INT8_FOREIGN:
        return "no weights in the slot";
    case DIGITS_INT8_DAMAGED:
        return "the weights are damaged";
    case DIGITS_INT8_STALE:
        return "the weights are of another model";
    default:
        return "the slot lies wrongly";
    }
}

int main(void)
{
    static int8_t pixels[DIGITS_INT8_IMAGE_LEN];
    static int8_t probabilities[DIGITS_INT8_PROBABILITIES_LEN];
    const int status = digits_int8_use(SLOT, SLOT_BYTES);

    if (status != DIGITS_INT8_OK) {
        board_put(fault_of(status));
        board_put("\n");
        return 1;
    }
    say("weights of version ", digits_int8_in_use()->version);
    for (uint32_t i = 0; i < DIGITS_INT8_IMAGE_LEN; ++i) {
        const float quantised = (float)image[i] / 16.0F / digits_int8_image_scale();
        const int32_t value = (int32_t)(quantised + 0.5F) + digits_int8_image_zero_point();
        pixels[i] = (int8_t)((value > 127) ? 127 : value);
    }
    if (digits_int8_run(pixels, probabilities) != DIGITS_INT8_OK) {
        return 1;
    }
    uint32_t best = 0;
    for (uint32_t i = 1; i < DIGITS_INT8_PROBABILITIES_LEN; ++i) {
        best = (probabilities[i] > probabilities[best]) ? i : best;
    }
    say("digit ", best);
    return 0;
}
