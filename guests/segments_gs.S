# The gs segment is the guest's too: set by arch_prctl, kept over every border, read by loads, stores,
# lea (which ignores it), string instructions and calls.
#
# Ir: any
# limit: instructions with a gs operand end the program
# valgrind: no, it does not let a program set gs
#include "checks.h"
    .text
function _start
    lea .Lgs(%rip), %rsi                # arch_prctl(ARCH_SET_GS)
    mov $0x1001, %edi
    mov $158, %eax
    syscall
    test %eax, %eax
    must z, 1
    call borders
    movabs $0x6161616161616161, %rax
    cmp %rax, %gs:8
    must e, 2
    mov $0x1004, %edi                   # ARCH_GET_GS
    lea .Lgot(%rip), %rsi
    mov $158, %eax
    syscall
    lea .Lgs(%rip), %rax
    cmp %rax, .Lgot(%rip)
    must e, 3
    mov $16, %esi
    mov %gs:(%rsi), %rax
    cmp $77, %rax
    must e, 4
    movq $88, %gs:(%rsi)
    cmpq $88, .Lgs+16(%rip)
    must e, 5
    .byte 0x65                          # lea %gs:24, %rax
    lea 24, %rax
    cmp $24, %rax
    must e, 6
    call *%gs:24
    cmp $1, %r12
    must e, 7
    addq $2, %gs:16
    cmpq $90, .Lgs+16(%rip)
    must e, 8
    success
end _start
function target
    inc %r12
    ret
end target
    define_borders
    .data
.Lgs: .quad 0, 0x6161616161616161, 77, target
.Lgot: .quad 0
