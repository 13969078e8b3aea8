# The 128 bytes below the stack pointer belong to a leaf function: jumps of every kind, string
# instructions and system calls leave them alone.
#
#   fill: 16 stores
#   loop: mov; 30 * (lea, jmp *, test, jz (over a nop on even), dec, jnz) + 15 nops
#   string: lea, lea, mov, rep movsb 8 (9); system call: mov, syscall; 16 * (cmpq, jcc); exit 3
#
# Ir: 261 = 16 + 1 + 30 * 6 + 15 + 3 + 9 + 2 + 32 + 3
# self _start 261
#include "checks.h"
    .text
function _start
    .set at, -128
    .rept 16
    movq $(0x1000 + at), at(%rsp)
    .set at, at + 8
    .endr
    mov $30, %ebx
1:  lea 2f(%rip), %rax
    jmp *%rax
2:  test $1, %bl
    jz 3f
    nop
3:  dec %ebx
    jnz 1b
    lea from(%rip), %rsi
    lea to(%rip), %rdi
    mov $8, %ecx
    rep movsb
    mov $39, %eax
    syscall
    .set at, -128
    .rept 16
    cmpq $(0x1000 + at), at(%rsp)
    must e, 1
    .set at, at + 8
    .endr
    exit 0
end _start
    .data
from: .quad 1
to: .quad 0
