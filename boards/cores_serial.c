/* All cores of a program on one thread, for tests: a core goes on until it has to wait, then
 * another one that need not wait goes on, in an order that differs from run to run but not from
 * program to program. Says so if none can go on. It takes the place of dlb_port_cores.c. */
#define _XOPEN_SOURCE 700

#include "board.h"
#include "dlb_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#ifndef BOARD_CORES
#error "cores_serial.c needs BOARD_CORES"
#endif

enum { STACK_BYTES = 256 * 1024 };

static struct {
    ucontext_t context;
    uint32_t progress;
    uint32_t other; /* what it waits for, while it waits */
    uint32_t wanted;
    int is_done;
} cores[BOARD_CORES];
static uint32_t current;
static uint32_t seed = 1;

static int can_go_on(uint32_t core)
{
    return !cores[core].is_done &&
           (int32_t)(cores[cores[core].other].progress - cores[core].wanted) >= 0;
}

/* Let another core go on, or this one if it need not wait. */
static void go_on(void)
{
    seed = seed * 1664525U + 1013904223U; /* Numerical Recipes in C, 2nd edition, section 7.1 */
    for (uint32_t i = 0; i < BOARD_CORES; ++i) {
        const uint32_t next = ((seed >> 16) + i) % BOARD_CORES;
        if (can_go_on(next)) {
            const uint32_t last = current;
            current = next;
            if (next != last) {
                (void)swapcontext(&cores[last].context, &cores[next].context);
            }
            return;
        }
    }
    fprintf(stderr, "deadlock:");
    for (uint32_t core = 0; core < BOARD_CORES; ++core) {
        fprintf(stderr, " core %u waits for core %u to be at %u, it is at %u;", core,
                cores[core].other, cores[core].wanted, cores[cores[core].other].progress);
    }
    board_fail(" no core can go on");
}

static void begin(int core)
{
    board_core((uint32_t)core);
    cores[core].is_done = 1;
    go_on();
}

void board_start_cores(void)
{
    for (int core = 1; core < BOARD_CORES; ++core) {
        void *const stack = malloc(STACK_BYTES);
        if (stack == NULL || getcontext(&cores[core].context) != 0) {
            board_fail("a core cannot be started");
        }
        cores[core].context.uc_stack.ss_sp = stack;
        cores[core].context.uc_stack.ss_size = STACK_BYTES;
        makecontext(&cores[core].context, (void (*)(void))begin, 1, core);
    }
}

uint32_t dlb_progress(uint32_t core)
{
    return cores[core].progress;
}

void dlb_signal(uint32_t core, uint32_t progress)
{
    if ((int32_t)(progress - cores[core].progress) <= 0) {
        board_fail("a core's progress does not grow");
    }
    cores[core].progress = progress;
    go_on();
}

void dlb_wait(uint32_t core, uint32_t progress)
{
    cores[current].other = core;
    cores[current].wanted = progress;
    go_on();
}
