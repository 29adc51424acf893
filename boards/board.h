/* What a program that runs a model needs of a board, and what a board must have for it.
 * The line protocol between the two and dlbuild is in docs/runner.md. */
#ifndef DLB_BOARD_H
#define DLB_BOARD_H

#include <stdint.h>

/* For the program. lines.c speaks the protocol over the port below; host.c uses files. */
int board_program(void);                            /* the program; 0 = it went well */
void board_read(void *to, uint32_t bytes);          /* the next bytes that dlbuild has to send */
void board_write(const void *from, uint32_t bytes); /* the next bytes of the result */
void board_fill(void *at, uint8_t byte, uint32_t bytes);
void board_fail(const char *why);                   /* says why, and ends */

/* From here on, what is measured counts for this region (up to 65535); 0 = nothing counts.
 * mark.c lets the emulator's plugin count, clock.c takes board_time. */
void board_mark(uint32_t region);

void board_stack_paint(void);  /* fills the stack below the caller's frame */
void board_stack_report(void); /* says how much of that was overwritten since */

/* For programs of several cores: BOARD_CORES says how many. The program has the first. */
void board_core(uint32_t core);                         /* what another core does */
void board_start_cores(void);                           /* lets each of them begin */
void board_signal(uint32_t progress);                   /* for the plugin: this core is so far */
void board_wait(uint32_t core, uint32_t progress);      /* another core was waited for */

#if defined(__riscv) && defined(DLB_COUNTED)
#define DLB_CLINT 0x02000000U /* of the emulated machine, for dlb_port_cores.c */
#endif

/* For the port: written once for a board. */
int board_get(void);              /* waits for the next character of the console */
void board_put(const char *text); /* prints text on the console */
uint32_t board_time(void);        /* a free-running counter, for clock.c alone */
void board_exit(int status);      /* ends; a board that cannot end stays here */

#endif
