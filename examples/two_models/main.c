/* A firmware with two models: it classifies one image with each and prints what they say. */
#include "board.h"
#include "digits.h"
#include "digits_int8.h"

#include <stdint.h>

/* The first image of ../digits/digits_samples.npz, a two, in sixteenths. */
static const uint8_t image[64] = {
    0, 4,  16, 15, 2,  0,  0,  0, /* */
    0, 11, 15, 15, 7,  0,  0,  0, /* */
    0, 9,  10, 6,  14, 0,  0,  0, /* */
    0, 0,  0,  7,  15, 0,  0,  0, /* */
    0, 0,  0,  13, 10, 0,  0,  0, /* */
    0, 0,  1,  16, 7,  2,  2,  0, /* */
    0, 1,  12, 16, 15, 16, 15, 0, /* */
    0, 4,  16, 16, 16, 12, 11, 0, /* */
};

/* The models never run at once, so one arena is enough. */
static union {
    digits_arena_t digits;
    digits_int8_arena_t digits_int8;
} arena;

static void say(const char *model, int32_t digit, int32_t percent)
{
    char text[] = ": 0, 000 %\n";
    text[2] = (char)('0' + digit);
    text[5] = (char)((percent >= 100) ? '1' : ' ');
    text[6] = (char)((percent >= 10) ? '0' + percent / 10 % 10 : ' ');
    text[7] = (char)('0' + percent % 10);
    board_put(model);
    board_put(text);
}

static int run_float(void)
{
    static float pixels[DIGITS_IMAGE_LEN];
    static float probabilities[DIGITS_PROBABILITIES_LEN];
    for (int32_t i = 0; i < DIGITS_IMAGE_LEN; ++i) {
        pixels[i] = (float)image[i] / 16.0F;
    }
    if (digits_run(&arena.digits, pixels, probabilities) != DIGITS_OK) {
        return 1;
    }
    int32_t best = 0;
    for (int32_t i = 1; i < DIGITS_PROBABILITIES_LEN; ++i) {
        best = (probabilities[i] > probabilities[best]) ? i : best;
    }
    say("float32", best, (int32_t)(probabilities[best] * 100.0F + 0.5F));
    return 0;
}

static int run_int8(void)
{
    static int8_t pixels[DIGITS_INT8_IMAGE_LEN];
    static int8_t probabilities[DIGITS_INT8_PROBABILITIES_LEN];
    for (int32_t i = 0; i < DIGITS_INT8_IMAGE_LEN; ++i) {
        const float quantised = (float)image[i] / 16.0F / digits_int8_image_scale;
        const int32_t value = (int32_t)(quantised + 0.5F) + digits_int8_image_zero_point;
        pixels[i] = (int8_t)((value > 127) ? 127 : value);
    }
    if (digits_int8_run(&arena.digits_int8, pixels, probabilities) != DIGITS_INT8_OK) {
        return 1;
    }
    int32_t best = 0;
    for (int32_t i = 1; i < DIGITS_INT8_PROBABILITIES_LEN; ++i) {
        best = (probabilities[i] > probabilities[best]) ? i : best;
    }
    const int32_t steps = probabilities[best] - digits_int8_probabilities_zero_point;
    say("int8   ", best, (int32_t)((float)steps * digits_int8_probabilities_scale * 100.0F + 0.5F));
    return 0;
}

int main(void)
{
    return run_float() + run_int8();
}
