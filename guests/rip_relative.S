# RIP-relative operands in every position: load, store, lea, read-modify-write, compare and move with 8-
# and 32-bit immediates after the displacement, three operands, xmm, jmp, call and push through memory.
#
#   _start: mov, mov, lea, add 4; cmpb, jcc, cmpl, jcc, movq 5; cmpw, jcc, testb, jcc 4; imul, imul, cmp,
#   jcc 4; shld, bt, jcc 3; movups, pinsrw, movups, xor 4; cmpxchg, jcc, xchg, cmp, jcc 5; push, pop,
#   cmov, setcc 4; cmp, jcc, cmpb, jcc 4; call, jmp 2; cmp, jcc, exit 5
#
# Ir: 46 = 4 + 5 + 4 + 4 + 3 + 4 + 5 + 4 + 4 + 2 + 5 + 2
# self _start 44
# self target 2
# call _start target 1 2
#include "checks.h"
    .text
function _start
    mov value(%rip), %rax
    mov %rax, copy(%rip)
    lea value(%rip), %rbx
    addq $1, copy(%rip)
    cmpb $0x11, value(%rip)
    must e, 1
    cmpl $0x44332211, value(%rip)
    must e, 2
    movq $-5, small(%rip)
    cmpw $-5, small(%rip)
    must e, 3
    testb $0x80, small(%rip)
    must nz, 4
    imul $3, small(%rip), %rcx
    imul $1000, small(%rip), %rdx
    cmp $-5000, %rdx
    must e, 5
    shldq $8, %rax, copy(%rip)
    btl $4, value(%rip)
    must c, 6
    movups value(%rip), %xmm0
    pinsrw $3, small(%rip), %xmm0
    movups %xmm0, copy(%rip)
    xor %eax, %eax
    cmpxchg %rbx, zero(%rip)
    must e, 7
    xchg %rcx, zero(%rip)
    cmp %rbx, %rcx
    must e, 8
    push value(%rip)
    pop small(%rip)
    cmovne small(%rip), %rdx
    sete flag(%rip)
    cmp $-5000, %edx
    must e, 9
    cmpb $1, flag(%rip)
    must e, 10
    call *pointer(%rip)
    jmp *pointer+8(%rip)
    exit 11
2:  cmp $1, %r12d
    must e, 12
    exit 0
end _start
function target
    inc %r12d
    ret
end target
    .data
value: .quad 0x8877665544332211, 0x1122334455667788
copy: .quad 0, 0
small: .quad 0
zero: .quad 0
flag: .quad 0
pointer: .quad target, 2b
