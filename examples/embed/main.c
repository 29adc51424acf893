/* Asks two networks for the digit on an empty image, and prints what they say. */
#include <stdio.h>

#include "digits.h"
#include "digits_int8.h"

static float image[DIGITS_IMAGE_LEN];
static float probabilities[DIGITS_PROBABILITIES_LEN];
static int8_t image_int8[DIGITS_INT8_IMAGE_LEN];
static int8_t probabilities_int8[DIGITS_INT8_PROBABILITIES_LEN];

int main(void)
{
    int best = 0;
    int best_int8 = 0;
    if (digits_run(image, probabilities) != DIGITS_OK ||
        digits_int8_run(image_int8, probabilities_int8) != DIGITS_INT8_OK) {
        return 1;
    }
    for (int i = 1; i < DIGITS_PROBABILITIES_LEN; ++i) {
        best = (probabilities[i] > probabilities[best]) ? i : best;
        best_int8 = (probabilities_int8[i] > probabilities_int8[best_int8]) ? i : best_int8;
    }
    printf("float32: %d\nint8   : %d\n", best, best_int8);
    return 0;
}
