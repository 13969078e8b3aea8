# Integer instructions that are rarely seen, with their results: wide multiplication and division,
# double shifts, rotates through carry, bit tests with a register offset that reaches past the operand,
# byte swaps, exchanges, compare and exchange of 16 bytes, xlat, cmov, sign extensions, set, and locked
# forms.
#
# Ir: any
# valgrind: no, the count is not the point
#include "checks.h"
.macro gives register, value, number
    movabs $\value, %r15
    cmp %r15, %\register
    must e, \number
.endm
    .text
function _start
    movabs $0x123456789abcdef0, %rax
    mov $1000, %ecx
    mul %rcx
    gives rdx, 71, 1
    div %rcx
    gives rax, 0x123456789abcdef0, 2
    mov $-7, %rax
    cqto
    mov $2, %ecx
    idiv %rcx
    gives rax, -3, 3
    gives rdx, -1, 4
    movabs $0x8000000000000001, %rax
    stc
    rcl $1, %rax
    gives rax, 3, 5
    mov $1, %eax
    mov $0x8000000000000000, %rdx
    shld $4, %rdx, %rax
    gives rax, 0x18, 6
    mov $100, %eax                      # a bit 12 bytes on
    bts %rax, .Lbits(%rip)
    cmpb $0x10, .Lbits+12(%rip)
    must e, 7
    bswap %rax
    gives rax, 0x6400000000000000, 8
    lea .Lbits(%rip), %rbx
    mov $12, %eax
    xlat
    gives rax, 0x10, 9
    movabs $0x1122334455667788, %rax
    cbw
    cwde
    cdqe
    gives rax, 0xffffffffffffff88, 10
    xor %eax, %eax
    xor %edx, %edx
    mov $5, %ebx
    mov $6, %ecx
    lock cmpxchg16b .Lpair(%rip)
    must e, 11
    cmpq $6, .Lpair+8(%rip)
    must e, 12
    mov $10, %eax
    lock xadd %rax, .Lpair(%rip)
    gives rax, 5, 13
    lock incq .Lpair(%rip)
    lock btsq $40, .Lpair(%rip)
    must nc, 14
    mov .Lpair(%rip), %rax
    gives rax, 0x10000000010, 15
    xor %eax, %eax
    cmp $1, %eax
    mov $0x1234567890abcdef, %rbx
    cmovae %ebx, %ebx                   # not moved, yet the upper half is cleared
    gives rbx, 0x90abcdef, 16
    mov $0x1ff, %eax
    mov $0x0101, %bx
    add %bh, %ah
    gives rax, 0x2ff, 17
    setc %ah
    gives rax, 0xff, 18
    movsbl %ah, %eax
    gives rax, 0, 19
    movabs $0xffffffff80000000, %rax
    movslq %eax, %rax
    gives rax, 0xffffffff80000000, 20
    movabs .Lbits+8, %al                # the form with an address of 64 bits
    movabs %al, .Lbits
    crc32b .Lbits(%rip), %ecx
    push $-2
    pushw $7
    popw %ax
    pop %rbx
    gives rbx, -2, 21
    mov $3, %ecx
    movabs $0x8000000000000000, %rax
    sar %cl, %rax
    gives rax, 0xf000000000000000, 22
    .byte 0xf3                          # pause, and prefixes that say nothing
    nop
    .byte 0x2e, 0x3e, 0x48, 0x89, 0xc3  # cs ds mov %rax, %rbx
    gives rbx, 0xf000000000000000, 23
    .byte 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
    endbr64
    prefetchnta .Lbits(%rip)
    mfence
    sfence
    lfence
    clflush .Lbits(%rip)
    movnti %rax, .Lbits(%rip)
    cmp %rax, .Lbits(%rip)
    must e, 24
    lahf
    sahf
    cmc
    must c, 25
    success
end _start
    .data
    .balign 16
.Lpair: .quad 0, 0
.Lbits: .quad 0, 0
