# Flags live over every border between blocks: each of CF, PF, AF, ZF, SF, OF set and clear, over jmp, jcc
# both ways, call, ret, indirect jmp and call, loop and jrcxz; read by pushf and by lahf. DF set over a
# call. The value of pushf is compared in full.
#
# Ir: any
# valgrind: no, the count is not the point
#include "checks.h"
    .set mask, 0x8d5
# Compares the flags with those set before.
.macro over number
    pushf
    pop %r14
    xor %r13, %r14
    test $(mask | 0x400), %r14d
    must z, \number
.endm
.macro with_flags
    push %r13
    popf
.endm
    .text
function _start
    mov $0, %r15d
    # every combination of the six flags: 0..63 spread over the mask's bits
.Leach:
    xor %r13d, %r13d
    mov %r15d, %eax
    and $1, %eax
    or %eax, %r13d              # CF
    mov %r15d, %eax
    and $2, %eax
    shl $1, %eax
    or %eax, %r13d              # PF
    mov %r15d, %eax
    and $4, %eax
    shl $2, %eax
    or %eax, %r13d              # AF
    mov %r15d, %eax
    and $0x18, %eax
    shl $3, %eax
    or %eax, %r13d              # ZF SF
    mov %r15d, %eax
    and $0x20, %eax
    shl $6, %eax
    or %eax, %r13d              # OF
    or $0x202, %r13d
    with_flags
    jmp 1f
1:  over 1
    with_flags
    jc 2f
2:  over 2
    with_flags
    jo 3f
    nop
3:  over 3
    with_flags
    call nothing
    over 4
    lea nothing(%rip), %rax
    with_flags
    call *%rax
    over 5
    lea 4f(%rip), %rax
    with_flags
    jmp *%rax
4:  over 6
    mov $3, %ecx
    with_flags
5:  loop 5b
    over 7
    xor %ecx, %ecx
    with_flags
    jrcxz 6f
    nop
6:  over 8
    with_flags
    call reads
    cmp %r12, %r13
    must e, 9
    with_flags
    call deep
    over 10
    lea pointer(%rip), %rax
    with_flags
    call *(%rax)
    over 11
    with_flags
    jmp *pointer+8(%rip)
7:  over 12
    # lahf and seto, without touching memory
    with_flags
    jmp 8f
8:  lahf
    movzx %ah, %eax
    mov %r13d, %ecx
    and $0xd5, %ecx
    and $0xd5, %eax
    cmp %eax, %ecx
    must e, 13
    with_flags
    mov $0, %eax
    jmp 9f
9:  seto %al
    shl $11, %eax
    mov %r13d, %ecx
    and $0x800, %ecx
    cmp %eax, %ecx
    must e, 14
    inc %r15d
    cmp $64, %r15d
    jb .Leach

    # The direction flag over a call, a return and jumps.
    mov $0x602, %r13d
    with_flags
    call nothing
    jmp 1f
1:  call deep
    over 15
    cld

    # Carry through a chain of adc over calls, as in arithmetic with long numbers.
    mov $-1, %rax
    xor %ebx, %ebx
    add $1, %rax
    call nothing
    adc $0, %rbx
    cmp $1, %rbx
    must e, 16
    # inc and dec keep the carry.
    stc
    inc %rbx
    call nothing
    dec %rbx
    must c, 17

    # Flags that a function sets for its caller.
    mov $5, %edi
    call compare
    must a, 18
    mov $4, %edi
    call compare
    must e, 19
    mov $3, %edi
    call compare
    must b, 20

    mov $1, %eax
    mov $1, %edi
    lea done(%rip), %rsi
    mov $13, %edx
    syscall
    exit 0
end _start
function nothing
    ret
end nothing
function deep
    call nothing
    jmp nothing
end deep
function reads
    pushf
    pop %r12
    ret
end reads
function compare
    cmp $4, %edi
    ret
end compare
    .data
    .balign 8
pointer: .quad nothing, 7b
done: .ascii "EXIT-SUCCESS\n"
