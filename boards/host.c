/* The machine that builds, as a board: what is sent and got stands in the files that the two
 * arguments name; marks take the processor's time, in nanoseconds. */
#define _POSIX_C_SOURCE 200112L

#include "board.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
/* With BOARD_SERIAL cores_serial.c has the cores. */
#if defined(BOARD_CORES) && !defined(BOARD_SERIAL)
#include <pthread.h>
#endif

#ifdef BOARD_MEMCHECK
#include <valgrind/memcheck.h>
#endif

static FILE *input, *output;

void board_read(void *to, uint32_t bytes)
{
    if (fread(to, 1, bytes, input) != bytes) {
        board_fail("the input file is too short");
    }
}

void board_write(const void *from, uint32_t bytes)
{
    if (fwrite(from, 1, bytes, output) != bytes) {
        board_fail("the output file cannot be written");
    }
}

void board_fill(void *at, uint8_t byte, uint32_t bytes)
{
    memset(at, byte, bytes);
#ifdef BOARD_MEMCHECK
    VALGRIND_MAKE_MEM_UNDEFINED(at, bytes); /* nobody may depend on it before it is written */
#endif
}

void board_fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(2);
}

void board_mark(uint32_t region)
{
    static uint32_t current;
    static int64_t began;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (current != 0) {
        printf("dlb count %" PRIu32 " %" PRId64 "\n", current, time - began);
    }
    current = region;
    clock_gettime(CLOCK_MONOTONIC, &now); /* again, since printing took time */
    began = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void board_stack_paint(void) {}
void board_stack_report(void) {}

#if defined(BOARD_CORES) && !defined(BOARD_SERIAL)
static pthread_t threads[BOARD_CORES];

static void *thread(void *core)
{
    board_core((uint32_t)(uintptr_t)core);
    return NULL;
}

void board_start_cores(void)
{
    for (uintptr_t core = 1; core < BOARD_CORES; ++core) {
        if (pthread_create(&threads[core], NULL, thread, (void *)core) != 0) {
            board_fail("a thread cannot be started");
        }
    }
}

static void join_cores(void)
{
    for (uintptr_t core = 1; core < BOARD_CORES; ++core) {
        (void)pthread_join(threads[core], NULL);
    }
}
#else
static void join_cores(void) {}
#endif

int main(int argc, char **argv)
{
    if (argc != 3) {
        board_fail("two arguments: the input file and the output file");
    }
    input = fopen(argv[1], "rb");
    output = fopen(argv[2], "wb");
    if (input == NULL || output == NULL) {
        board_fail("the input or the output file cannot be opened");
    }
    printf("dlb unit ns\n");
    const int status = board_program();
    join_cores();
    return (fclose(output) == 0) ? status : 2;
}
