# The state of registers, flags and the stack at the very first instruction, as the kernel leaves it.
#
# Ir: any
# valgrind: no, the count is not the point
#include "checks.h"
    .text
function _start
    pushf
    pop %r15
    .irp r, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14
    test %\r, %\r
    must z, 1
    .endr
    and $0xcd5, %r15            # no arithmetic flag, direction up
    test $0x400, %r15
    must z, 2
    mov %rsp, %rax
    and $15, %eax
    must z, 3
    cmpq $1, (%rsp)             # argc
    must e, 4
    mov 8(%rsp), %rsi
    cmpb $'/', (%rsi)
    must e, 5
    cmpq $0, 16(%rsp)
    must e, 6
    pxor %xmm1, %xmm1
    pcmpeqb %xmm0, %xmm1
    pmovmskb %xmm1, %eax
    cmp $0xffff, %eax
    must e, 7
    success
end _start
    some_data
