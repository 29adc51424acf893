/* Start of a RISC-V core: stack, thread pointer, FPU on, variables set, then main. */
    .section .vectors, "ax"
    .globl board_reset
board_reset:
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
