/* Console and end of an emulated core, by semihosting. What dlbuild sends is read from the file in
 * which it stands as well, since not every emulator lets a program wait for its standard input.
 * Arm, "Semihosting for AArch32 and AArch64"; RISC-V Semihosting, which takes its numbers. */
#include "board.h"

enum { SYS_OPEN = 0x01, SYS_WRITE0 = 0x04, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { READ_MODE = 0, APPLICATION_EXIT = 0x20026 };

static int call(uintptr_t operation, const void *argument)
{
#if defined(__riscv)
    register uintptr_t first __asm__("a0") = operation;
    register const void *second __asm__("a1") = argument;
    /* The three instructions must be uncompressed and lie in one page. */
    __asm__ volatile(".balign 16\n"
                     ".option push\n"
                     ".option norvc\n"
                     "slli x0, x0, 0x1f\n"
                     "ebreak\n"
                     "srai x0, x0, 7\n"
                     ".option pop\n"
                     : "+r"(first)
                     : "r"(second)
                     : "memory");
#else
    register uintptr_t first __asm__("r0") = operation;
    register const void *second __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(first) : "r"(second) : "memory");
#endif
    return (int)first;
}

int board_get(void)
{
    static int file = -1;
    static char kept[256];
    static uint32_t n_kept;
    static uint32_t at;

    if (file < 0) {
        static const char name[] = "input.txt";
        const uintptr_t arguments[3] = {(uintptr_t)name, READ_MODE, sizeof name - 1U};
        file = call(SYS_OPEN, arguments);
    }
    while (at == n_kept) {
        const uintptr_t arguments[3] = {(uintptr_t)file, (uintptr_t)kept, sizeof kept};
        const int left = call(SYS_READ, arguments); /* bytes of the buffer that were not filled */
        at = 0;
        n_kept = (file >= 0 && left >= 0) ? (uint32_t)sizeof kept - (uint32_t)left : 0U;
        if (n_kept == 0U) {
            board_fail("input.txt has no more to send");
        }
    }
    return (unsigned char)kept[at++];
}

void board_put(const char *text)
{
    (void)call(SYS_WRITE0, text);
}

void board_exit(int status)
{
    const uintptr_t arguments[2] = {APPLICATION_EXIT, (uintptr_t)status};
    for (;;) {
        (void)call(SYS_EXIT_EXTENDED, arguments);
    }
}
