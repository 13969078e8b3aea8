# Calls and returns whose operands are the stack: ret imm16, push and pop of rsp, pop to memory based on
# rsp, call through memory based on rsp, leave and enter.
#
#   ret imm16:   mov, push, push, call, cmp, jcc, cmp, jcc                    8, take: mov, ret
#   push rsp:    mov, push, pop, cmp, jcc; pop rsp: push, pop, cmp, jcc       9
#   pop 8(rsp):  push, push, pop, cmp, jcc, cmp, jcc                          7
#   call (rsp):  twice sub, lea, mov, call, add                               10, note: 2 * (inc, ret)
#   frames:      call                                                         1, framed: enter, mov, sub,
#                                                                             cmp, jcc, leave, ret
#   last:        cmp, jcc, exit 3                                             5
#
# Ir: 53 = 8 + 9 + 7 + 10 + 1 + 5 + 2 + 4 + 7
# self _start 40
# self take 2
# self note 4
# self framed 7
# call _start take 1 2
# call _start note 2 4
# call _start framed 1 7
#include "checks.h"
    .text
function _start
    mov %rsp, %rbx
    push $7
    push $8
    call take
    cmp %rbx, %rsp
    must e, 1
    cmp $8, %eax
    must e, 2

    mov %rsp, %rcx
    push %rsp               # pushes the value from before
    pop %rax
    cmp %rcx, %rax
    must e, 3
    push %rcx
    pop %rsp                # the popped value, not a later one
    cmp %rcx, %rsp
    must e, 4

    push $11
    push $22
    pop 8(%rsp)             # the address is that after the pop: overwrites nothing below
    cmpq $11, (%rsp)
    must e, 5
    cmpq $22, 8(%rsp)
    must e, 6

    sub $8, %rsp
    lea note(%rip), %rax
    mov %rax, (%rsp)
    call *(%rsp)            # the address is that before the push
    add $8, %rsp
    sub $24, %rsp
    lea note(%rip), %rax
    mov %rax, 8(%rsp)
    call *8(%rsp)
    add $24, %rsp

    call framed
    cmp $2, %r12
    must e, 8
    exit 0
end _start
function take
    mov 8(%rsp), %eax
    ret $16
end take
function note
    inc %r12
    ret
end note
function framed
    enter $32, $0
    mov %rbp, %rax
    sub %rsp, %rax
    cmp $32, %rax
    must e, 9
    leave
    ret
end framed
    some_data
