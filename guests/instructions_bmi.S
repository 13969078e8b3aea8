# cpu: bmi1 bmi2 abm popcnt movbe adx
# BMI, LZCNT, POPCNT, MOVBE and ADX give their results, RIP-relative operands among them.
#
# Ir: any
# valgrind: no, the count is not the point
#include "checks.h"
.macro gives register, value, number
    mov $\value, %r15
    cmp %r15, %\register
    must e, \number
.endm
    .text
function _start
    mov $0xf0f0, %eax
    mov $0x00ff, %ebx
    andn %ebx, %eax, %ecx
    gives rcx, 0x000f, 1
    mov $0x0404, %edx                   # four bits from bit 4
    bextr %rdx, .Lvalue(%rip), %rcx
    gives rcx, 0xf, 2
    blsi %rax, %rcx
    gives rcx, 0x10, 3
    blsmsk %rax, %rcx
    gives rcx, 0x1f, 4
    blsr %rax, %rcx
    gives rcx, 0xf0e0, 5
    tzcnt .Lvalue(%rip), %rcx
    gives rcx, 4, 6
    lzcnt .Lvalue(%rip), %rcx
    gives rcx, 48, 7
    popcnt .Lvalue(%rip), %rcx
    gives rcx, 8, 8
    mov $7, %edx
    mulx .Lvalue(%rip), %rcx, %rdi
    gives rcx, 0x69690, 9
    pdep .Lvalue(%rip), %rbx, %rcx
    gives rcx, 0xf0f0, 10
    pext .Lvalue(%rip), %rax, %rcx
    gives rcx, 0xff, 11
    rorx $4, .Lvalue(%rip), %rcx
    gives rcx, 0xf0f, 12
    mov $8, %edx
    shlx %rdx, .Lvalue(%rip), %rcx
    gives rcx, 0xf0f000, 13
    shrx %rdx, .Lvalue(%rip), %rcx
    gives rcx, 0xf0, 14
    sarx %rdx, .Lvalue(%rip), %rcx
    gives rcx, 0xf0, 15
    movbe .Lvalue(%rip), %rcx
    gives rcx, 0xf0f0000000000000, 16
    movbe %rcx, .Lout(%rip)
    mov .Lout(%rip), %rcx
    gives rcx, 0xf0f0, 17
    stc
    mov $1, %ecx
    adcx .Lvalue(%rip), %rcx
    gives rcx, 0xf0f2, 18
    success
end _start
    .data
.Lvalue: .quad 0xf0f0
.Lout: .quad 0
