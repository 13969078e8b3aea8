# All general registers, the stack pointer and the fs base keep their values over every border.
#
# Ir: any
#include "checks.h"
    .text
function _start
    lea .Ltls(%rip), %rsi           # arch_prctl(ARCH_SET_FS)
    mov $0x1002, %edi
    mov $158, %eax
    syscall
    mov %rsp, .Lstack(%rip)
    .set value, 0x1111111111111111
    .irp r, rsi, rdi, rbp, r8, r9, r12, r13, r14, r15
    .set value, value + 0x0102030405060708
    movabs $value, %\r
    .endr
    call borders
    .set value, 0x1111111111111111
    .irp r, rsi, rdi, rbp, r8, r9, r12, r13, r14, r15
    .set value, value + 0x0102030405060708
    movabs $value, %rax
    cmp %rax, %\r
    must e, 1
    .endr
    cmp %rsp, .Lstack(%rip)
    must e, 2
    movabs $0x5151515151515151, %rax
    cmp %rax, %fs:8
    must e, 3
    mov $0x1003, %edi               # ARCH_GET_FS
    lea .Lgot(%rip), %rsi
    mov $158, %eax
    syscall
    lea .Ltls(%rip), %rax
    cmp %rax, .Lgot(%rip)
    must e, 4
    success
end _start
    define_borders
    .data
.Ltls: .quad 0, 0x5151515151515151
.Lstack: .quad 0
.Lgot: .quad 0
