/* Start of a Cortex-M: vectors, FPU and MVE on, variables set, then main. */
#include "board.h"

extern uint32_t board_stack_end[], board_data_load[], board_data_start[], board_data_end[];
extern uint32_t board_bss_start[], board_bss_end[];

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CPACR REGISTER(0xE000ED88U)
#define CCR REGISTER(0xE000ED14U)

int main(void);
void board_reset(void);

static void put_register(const char *name, uint32_t value)
{
    char text[10];
    for (uint32_t i = 0; i < 8U; ++i) {
        text[i] = "0123456789abcdef"[(value >> (28U - 4U * i)) & 15U];
    }
    text[8] = ' ';
    text[9] = '\0';
    board_put(name);
    board_put(text);
}

__attribute__((used)) static void start(void)
{
    CPACR |= 0xFU << 20; /* full access to CP10 and CP11: FPU and MVE */
    CCR |= 7U << 16;     /* caches, and branch prediction or low-overhead loops, where there are */
    __asm__ volatile("dsb\n"
                     "isb\n");
    const uint32_t *from = board_data_load;
    for (uint32_t *to = board_data_start; to < board_data_end; ++to) {
        *to = *from++;
    }
    for (uint32_t *to = board_bss_start; to < board_bss_end; ++to) {
        *to = 0;
    }
    board_exit(main());
}

__attribute__((naked)) void board_reset(void)
{
    __asm__ volatile("bl start\n");
}

static void fault(void)
{
    put_register("dlb fail fault: ICSR ", REGISTER(0xE000ED04U));
    put_register("CFSR ", REGISTER(0xE000ED28U));
    put_register("HFSR ", REGISTER(0xE000ED2CU));
    put_register("MMFAR ", REGISTER(0xE000ED34U));
    put_register("BFAR ", REGISTER(0xE000ED38U));
    board_put("\n");
    board_exit(97);
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)board_stack_end,
    (uintptr_t)board_reset,
    [2 ... 15] = (uintptr_t)fault,
};

const uint32_t board_stack_colour = 0xA5C3A5C3U;
uint32_t *board_stack_top;

/* A frame of its own would stay unpainted, so it has none. Instructions of Armv6-M alone. */
__attribute__((naked)) void board_stack_paint(void)
{
    __asm__ volatile("ldr r0, =board_stack_limit\n"
                     "ldr r1, =board_stack_colour\n"
                     "ldr r1, [r1]\n"
                     "mov r2, sp\n"
                     "b 2f\n"
                     "1: stmia r0!, {r1}\n"
                     "2: cmp r0, r2\n"
                     "blo 1b\n"
                     "ldr r0, =board_stack_top\n"
                     "str r2, [r0]\n"
                     "bx lr\n"
                     ".ltorg\n");
}
