/* Asks a network for the digit on an empty image, and prints what it says. */
#include <stdio.h>

#include "digits_int8.h"

static int8_t image[DIGITS_INT8_IMAGE_LEN];
static int8_t probabilities[DIGITS_INT8_PROBABILITIES_LEN];

int main(void)
{
    int best = 0;
    if (digits_int8_run(image, probabilities) != DIGITS_INT8_OK) {
        return 1;
    }
    for (int i = 1; i < DIGITS_INT8_PROBABILITIES_LEN; ++i) {
        best = (probabilities[i] > probabilities[best]) ? i : best;
    }
    printf("int8   : %d\n", best);
    return 0;
}
