/* Start of a RISC-V core: stack, thread pointer, FPU on, variables set, then main. */
    .section .vectors, "ax"
    .globl board_reset
board_reset:
#if defined(BOARD_CORES) && BOARD_CORES > 1
    .option push
    .option arch, +zicsr
    csrr t0, mhartid
    bnez t0, board_park
    li t0, 8
    csrw mie, t0 /* software interrupt: wakes from wfi, and is not taken */
    .option pop
#endif
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, board_stack_end
    la tp, board_tls_start
    li t0, 0x6000 /* mstatus.FS: dirty */
    .option arch, +zicsr
    csrs mstatus, t0
    la t0, trap
    csrw mtvec, t0
    la t0, board_data_load
    la t1, board_data_start
    la t2, board_data_end
1:  bgeu t1, t2, 2f
    lw t3, 0(t0)
    sw t3, 0(t1)
    addi t0, t0, 4
    addi t1, t1, 4
    j 1b
2:  la t1, board_bss_start
    la t2, board_bss_end
3:  bgeu t1, t2, 4f
    sw zero, 0(t1)
    addi t1, t1, 4
    j 3b
4:  call main
    call board_exit

#if defined(BOARD_CORES) && BOARD_CORES > 1
/* Every other core waits for its software interrupt (CLINT), then does its part. */
    .balign 4
board_park:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la tp, board_tls_start
    li t1, 0x6000
    csrs mstatus, t1
    la t1, trap
    csrw mtvec, t1
    la sp, board_core_stacks
    slli t1, t0, 13 /* BOARD_CORE_STACK = 8 KiB */
    add sp, sp, t1
    li t1, 8
    csrw mie, t1 /* machine software interrupt: wakes, and is not taken */
1:  wfi
    csrr t1, mip
    andi t1, t1, 8
    beqz t1, 1b
    mv a0, t0
    call board_core
2:  wfi
    j 2b

    .section .text.board_start_cores, "ax"
    .globl board_start_cores
board_start_cores:
    fence rw, rw
    li t0, 0x02000004 /* MSIP of core 1 */
    li t1, 1
    li t2, BOARD_CORES - 1
3:  sw t1, 0(t0)
    addi t0, t0, 4
    addi t2, t2, -1
    bnez t2, 3b
    ret

    .section .bss.board_core_stacks, "aw", @nobits
    .globl board_core_stacks
    .balign 16
board_core_stacks: /* that of a core ends where the next begins */
    .space 8192 * BOARD_CORES
    .size board_core_stacks, . - board_core_stacks
    .type board_core_stacks, @object

    .section .vectors, "ax"
#endif
    .balign 4
trap:
    la sp, board_stack_end /* the trap may come of the stack's overflow */
    la a0, trap_text
    call board_put
    li a0, 97
    call board_exit

    .section .rodata.board_trap, "a"
trap_text:
    .string "dlb fail trap: a wrong access or instruction\n"

    .section .text.board_stack_paint, "ax"
    .globl board_stack_paint
/* A frame of its own would stay unpainted, so it has none. */
board_stack_paint:
    la t0, board_stack_limit
    la t1, board_stack_colour
    lw t1, 0(t1)
    j 6f
5:  sw t1, 0(t0)
    addi t0, t0, 4
6:  bltu t0, sp, 5b
    la t0, board_stack_top
    sw sp, 0(t0)
    ret

    .section .rodata.board_stack_colour, "a"
    .globl board_stack_colour
    .balign 4
board_stack_colour:
    .word 0xA5C3A5C3

    .section .bss.board_stack_top, "aw", @nobits
    .globl board_stack_top
    .balign 4
board_stack_top:
    .space 4
