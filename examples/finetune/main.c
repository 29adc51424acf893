/*
 * Trains the last layers of the digits network on images of a sensor that is mounted a quarter
 * turned, and says how many of the images that it did not train with it recognises.
 *
 *     main digits.bin [parameters.bin]
 *
 * The parameters are written at the end. With -DCORES=n the model is built for n threads.
 */
#include "finetune.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef CORES
#include <pthread.h>
#endif

enum { BATCH = FINETUNE_LABELS_LEN, PIXELS = 64, CLASSES = 10 };
enum { IMAGES = 360, TRAINED = 240, EPOCHS = 10 };

static uint8_t file[IMAGES * (PIXELS + 1)];
static float images[BATCH * PIXELS];
static int64_t labels[BATCH];
static float probabilities[BATCH * CLASSES];

/* One step on the images from `first` on; those behind the last are the first ones again. */
static float step(uint32_t first, float rate)
{
    float loss;

    for (uint32_t i = 0; i < BATCH; ++i) {
        const uint32_t image = (first + i) % IMAGES;
        for (uint32_t k = 0; k < PIXELS; ++k) {
            images[(i * PIXELS) + k] = (float)file[(image * PIXELS) + k] / 16.0F;
        }
        labels[i] = file[(IMAGES * PIXELS) + image];
    }
    (void)finetune_run(images, labels, &rate, &loss, probabilities);
    return loss;
}

/* How many of the images that are not trained with are recognised; a rate of 0 changes nothing. */
static uint32_t recognised(void)
{
    uint32_t right = 0;

    for (uint32_t first = TRAINED; first < IMAGES; first += BATCH) {
        (void)step(first, 0.0F);
        for (uint32_t i = 0; i < BATCH && first + i < IMAGES; ++i) {
            uint32_t best = 0;
            for (uint32_t k = 1; k < CLASSES; ++k) {
                if (probabilities[(i * CLASSES) + k] > probabilities[(i * CLASSES) + best]) {
                    best = k;
                }
            }
            right += (labels[i] == (int64_t)best) ? 1U : 0U;
        }
    }
    return right;
}

#ifdef CORES
static void *work(void *core)
{
    finetune_worker((uint32_t)(uintptr_t)core);
    return NULL;
}
#endif

static int save(const char *name)
{
    static uint8_t parameters[FINETUNE_PARAMS_BYTES];
    FILE *out = fopen(name, "wb");

    if (out == NULL) {
        return 1;
    }
    finetune_params_save(parameters);
    const size_t written = fwrite(parameters, 1, sizeof parameters, out);
    return (fclose(out) != 0 || written != sizeof parameters) ? 1 : 0;
}

int main(int argc, char **argv)
{
    FILE *in = argc > 1 ? fopen(argv[1], "rb") : NULL;

    if (in == NULL || fread(file, 1, sizeof file, in) != sizeof file) {
        (void)fprintf(stderr, "usage: main digits.bin [parameters.bin]\n");
        return 1;
    }
    (void)fclose(in);
#ifdef CORES
    pthread_t threads[CORES];
    for (uintptr_t core = 1; core < CORES; ++core) {
        (void)pthread_create(&threads[core], NULL, work, (void *)core);
    }
#endif
    finetune_reset();
    (void)printf("before: %u of %d\n", (unsigned)recognised(), IMAGES - TRAINED);
    for (int epoch = 1; epoch <= EPOCHS; ++epoch) {
        float loss = 0.0F;
        for (uint32_t first = 0; first < TRAINED; first += BATCH) {
            loss += step(first, 0.1F) * BATCH / TRAINED;
        }
        (void)printf("epoch %d: loss %.4f\n", epoch, (double)loss);
    }
    (void)printf("after: %u of %d\n", (unsigned)recognised(), IMAGES - TRAINED);
    const int status = argc > 2 ? save(argv[2]) : 0;
#ifdef CORES
    finetune_stop();
    for (int core = 1; core < CORES; ++core) {
        (void)pthread_join(threads[core], NULL);
    }
#endif
    return status;
}
