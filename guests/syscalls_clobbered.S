# A system call leaves the address after it in rcx and the flags in r11, and nothing else changed but rax.
#
#   12 registers set (mov rsp excluded), stc; mov, syscall; lea, cmp, jcc for rcx; r11 and $1: and, cmp, jcc;
#   9 registers: 9 * (cmp, jcc); exit 3; jc after the syscall 1
#
# Ir: any
# valgrind: no, it keeps no flags in r11
#include "checks.h"
    .text
function _start
    .irp r, rbx, rdx, rsi, rdi, rbp, r8, r9, r10, r12, r13, r14, r15
    mov $0x1234, %\r
    .endr
    mov $-1, %rcx
    mov $-1, %r11
    mov $39, %eax               # getpid
    stc
    syscall
1:  must c, 1
    lea 1b(%rip), %rax
    cmp %rax, %rcx
    must e, 2
    and $0x8d5, %r11            # what was in the flags: carry, perhaps parity and zero of before
    test $1, %r11
    must nz, 3
    .irp r, rbx, rdx, rsi, rdi, rbp, r8, r9, r10, r12, r13, r14, r15
    cmp $0x1234, %\r
    must e, 4
    .endr
    # The same with a call that does not exist, and across a loop.
    mov $50, %ebx
2:  mov $5000, %eax
    syscall
3:  cmp $-38, %rax
    must e, 5
    lea 3b(%rip), %rax
    cmp %rax, %rcx
    must e, 6
    dec %ebx
    jnz 2b
    lea done(%rip), %rsi
    mov $done_length, %edx
    mov $1, %edi
    mov $1, %eax
    syscall
    exit 0
end _start
    .data
done: .ascii "EXIT-SUCCESS\n"
    .set done_length, . - done
