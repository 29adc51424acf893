/* The second Cortex-M33 of Arm's SSE-200 (MPS2 AN521): where it starts, and that it starts.
 * Arm CoreLink SSE-200 Technical Reference Manual, system control registers INITSVTOR1, CPUWAIT. */
#include "board.h"

#ifdef BOARD_CORES /* else the program uses the first core alone */
#if BOARD_CORES > 2
#error "this board has two cores: resources: {cores: 2}"
#endif

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define INITSVTOR1 REGISTER(0x50021114U)
#define CPUWAIT REGISTER(0x50021118U)

enum { STACK_WORDS = 2048 };

uint64_t board_core_stacks[STACK_WORDS / 2];

__attribute__((used)) static void second(void)
{
    board_core(1);
    for (;;) {
        __asm__ volatile("wfe");
    }
}

__attribute__((naked)) static void reset(void)
{
    __asm__ volatile("bl second\n");
}

static void fault(void)
{
    board_put("dlb fail fault on core 1\n");
    board_exit(97);
}

/* INITSVTOR1 holds the upper 25 bits of its address. */
__attribute__((aligned(128), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)&board_core_stacks[STACK_WORDS / 2],
    (uintptr_t)reset,
    [2 ... 15] = (uintptr_t)fault,
};

void board_start_cores(void)
{
    INITSVTOR1 = (uint32_t)vectors;
    __asm__ volatile("dsb" ::: "memory");
    CPUWAIT &= ~2U;
}
#endif
