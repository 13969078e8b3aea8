# The gs segment is the guest's too: set by arch_prctl, kept over every border, read by loads, stores,
# lea (which ignores it), string instructions and calls.
#
# Ir: any
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
    movabs %gs:16, %rax
    cmp $90, %rax
    must e, 9
    mov $8, %esi                        # a source in gs
    lodsq %gs:(%rsi), %rax
    cmp $16, %rsi
    must e, 10
    mov $0x6161616161616161, %rcx
    cmp %rcx, %rax
    must e, 11
    mov $8, %esi
    lea .Lgot(%rip), %rdi
    mov $9, %ecx
    rep movsb %gs:(%rsi), (%rdi)
    cmp $17, %rsi
    must e, 12
    cmpb $90, .Lgot+8(%rip)
    must e, 13
    mov $-8, %r8
    mov $3, %edi
    pushq %gs:(%r8, %rdi, 8)            # the stack pointer moves
    pop %rax
    cmp $90, %rax
    must e, 14
    mov $90, %eax
    mov $5, %ecx
    stc
    lock cmpxchg %rcx, %gs:16
    must e, 15
    cmpq $5, %gs:16
    must e, 16
    rdgsbase %rax
    lea .Lgs(%rip), %rdx
    cmp %rax, %rdx
    must e, 17
    add $8, %rax
    wrgsbase %rax
    cmpq $5, %gs:8
    must e, 18
    mov $0x11, %r9d
    wrgsbase %r9d
    rdgsbase %r10d
    cmp $0x11, %r10
    must e, 19
    success
end _start
function target
    inc %r12
    ret
end target
    define_borders
    .data
.Lgs: .quad 0, 0x6161616161616161, 77, target
.Lgot: .quad 0, 0
