/* How cores wait for each other: RISC-V harts, Arm cores, threads of a hosted system. One counter
 * for each core, which that core alone writes; no other atomic operation than load and store.
 *
 * A RISC-V hart that waits sleeps if DLB_CLINT is the address of the core-local interruptor:
 * whoever signals rings all others by their software interrupt, which must be enabled in mie, and
 * not taken. */
#ifdef __unix__
#define _POSIX_C_SOURCE 200112L
#endif

#include "dlb_port.h"

#ifdef __unix__
#include <sched.h>
#endif
#ifdef DLB_COUNTED
#include "board.h"
#endif

#ifndef DLB_CORES
#define DLB_CORES 16
#endif
/* Each counter has a cache line of its own. */
#ifndef DLB_LINE_BYTES
#ifdef __unix__
#define DLB_LINE_BYTES 64
#else
#define DLB_LINE_BYTES 8
#endif
#endif

static struct {
    uint32_t progress;
    uint8_t rest[DLB_LINE_BYTES - 4];
} progress_of[DLB_CORES];

#ifdef __unix__
enum { SPINS = 2000 };
#endif

#if defined(__riscv) && defined(DLB_CLINT)
static volatile uint32_t *bell_of(uint32_t core)
{
    return (volatile uint32_t *)(DLB_CLINT + 4U * core);
}
#endif

/* Wake whoever sleeps. */
static void ring(uint32_t core)
{
    (void)core;
#if defined(__unix__)
    /* Threads look again by themselves. */
#elif defined(__arm__)
    __asm__ volatile("dsb\n\tsev" ::: "memory");
#elif defined(__riscv) && defined(DLB_CLINT)
    __asm__ volatile("fence w, o" ::: "memory");
    for (uint32_t other = 0; other < DLB_CORES; ++other) {
        if (other != core) {
            *bell_of(other) = 1;
        }
    }
#endif
}

/* Let time pass. A core that was rung between its look and its sleep does not sleep. */
static void rest(uint32_t times)
{
    (void)times;
#if defined(__unix__)
    if (times > SPINS) {
        (void)sched_yield();
    }
#elif defined(__arm__)
    __asm__ volatile("wfe");
#elif defined(__riscv) && defined(DLB_CLINT)
    uint32_t core;
    __asm__ volatile("wfi\n"
                     ".option push\n"
                     ".option arch, +zicsr\n"
                     "csrr %0, mhartid\n"
                     ".option pop"
                     : "=r"(core)
                     :
                     : "memory");
    *bell_of(core) = 0;
    __asm__ volatile("fence o, r" ::: "memory");
#else
    __asm__ volatile("nop");
#endif
}

uint32_t dlb_progress(uint32_t core)
{
    return __atomic_load_n(&progress_of[core].progress, __ATOMIC_ACQUIRE);
}

void dlb_signal(uint32_t core, uint32_t progress)
{
#ifdef DLB_COUNTED
    board_signal(progress);
#endif
    __atomic_store_n(&progress_of[core].progress, progress, __ATOMIC_RELEASE);
    ring(core);
}

void dlb_wait(uint32_t core, uint32_t progress)
{
    uint32_t times = 0;

    /* The difference, since progress runs through zero. */
    while ((int32_t)(dlb_progress(core) - progress) < 0) {
        rest(++times);
    }
#ifdef DLB_COUNTED
    board_wait(core, progress);
#endif
}
