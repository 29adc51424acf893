/* Streams images through a pipeline of two clusters of threads, and prints what is recognised. */
#define _POSIX_C_SOURCE 200112L
#include "digits.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { IMAGES = 16 };

/* The first image of ../digits/digits_samples.npz, a two, in sixteenths. */
static const uint8_t two[DIGITS_IMAGE_LEN] = {
    0, 4,  16, 15, 2,  0,  0,  0, /* */
    0, 11, 15, 15, 7,  0,  0,  0, /* */
    0, 9,  10, 6,  14, 0,  0,  0, /* */
    0, 0,  0,  7,  15, 0,  0,  0, /* */
    0, 0,  0,  13, 10, 0,  0,  0, /* */
    0, 0,  1,  16, 7,  2,  2,  0, /* */
    0, 1,  12, 16, 15, 16, 15, 0, /* */
    0, 4,  16, 16, 16, 12, 11, 0, /* */
};

static int8_t images[IMAGES * DIGITS_IMAGE_LEN];
static int8_t probabilities[IMAGES * DIGITS_PROBABILITIES_LEN];

/* One thread for each core but the first, for as long as the program runs. */
static void *work(void *core)
{
    digits_worker((uint32_t)(uintptr_t)core);
    return NULL;
}

/* The same image, brighter from one to the next. */
static void paint(void)
{
    for (int32_t i = 0; i < IMAGES * DIGITS_IMAGE_LEN; ++i) {
        const int32_t brightness = 1 + i / DIGITS_IMAGE_LEN;
        const float real = (float)(two[i % DIGITS_IMAGE_LEN] * brightness) / (16.0F * IMAGES);
        const int32_t value = (int32_t)(real / digits_image_scale) + digits_image_zero_point;
        images[i] = (int8_t)((value > 127) ? 127 : value);
    }
}

static int32_t best_of(const int8_t *of)
{
    int32_t best = 0;
    for (int32_t i = 1; i < DIGITS_PROBABILITIES_LEN; ++i) {
        best = (of[i] > of[best]) ? i : best;
    }
    return best;
}

int main(void)
{
    pthread_t threads[DIGITS_CORES];

    for (uintptr_t core = 1; core < DIGITS_CORES; ++core) {
        if (pthread_create(&threads[core], NULL, work, (void *)core) != 0) {
            return 1;
        }
    }
    paint();
    if (digits_stream(images, probabilities, IMAGES) != DIGITS_OK) {
        return 1;
    }
    for (int32_t image = 0; image < IMAGES; ++image) {
        printf("%d", (int)best_of(&probabilities[image * DIGITS_PROBABILITIES_LEN]));
    }
    printf("\n");
    digits_stop();
    for (uintptr_t core = 1; core < DIGITS_CORES; ++core) {
        (void)pthread_join(threads[core], NULL);
    }
    return 0;
}
