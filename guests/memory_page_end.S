# Instructions that end with the last byte of a page, the next page being unmapped: a return, a jump, a
# conditional jump that is taken, a call, and a data load at the very end.
#
# Ir: any
# valgrind: no, the count is not the point
#include "checks.h"
    .text
function _start
    mov $9, %eax                # mmap two pages
    xor %edi, %edi
    mov $8192, %esi
    mov $7, %edx
    mov $0x22, %r10d
    mov $-1, %r8
    xor %r9d, %r9d
    syscall
    mov %rax, %rbx
    lea 4096(%rbx), %rdi        # and unmap the second
    mov $4096, %esi
    mov $11, %eax
    syscall
    test %rax, %rax
    must z, 1

    movb $0xc3, 4095(%rbx)      # ret
    lea 4095(%rbx), %rax
    call *%rax

    movl $0x90909090, 4088(%rbx)
    movl $0xc3c0ff48, 4092(%rbx)    # inc %rax, ret
    xor %eax, %eax
    lea 4088(%rbx), %rcx
    call *%rcx
    cmp $1, %eax
    must e, 2

    movw $0xf4eb, 4094(%rbx)    # jmp to 4084
    movw $0x90c3, 4084(%rbx)    # ret
    lea 4094(%rbx), %rcx
    call *%rcx

    movw $0xf472, 4094(%rbx)    # jc to 4084
    stc
    call *%rcx

    lea 4093(%rbx), %rcx
    movb $0xff, 4093(%rbx)      # jmp *-8(%rcx): three bytes
    movw $0xf861, 4094(%rbx)
    lea .Lback(%rip), %rax
    mov %rax, 4085(%rbx)
    jmp *%rcx
    exit 3
.Lback:
    mov %rbx, %rax
    movl $77, 4092(%rbx)
    mov 4092(%rax), %edx        # the last bytes as data
    cmp $77, %edx
    must e, 4
    mov $1, %eax
    mov $1, %edi
    lea done(%rip), %rsi
    mov $13, %edx
    syscall
    exit 0
end _start
    .data
done: .ascii "EXIT-SUCCESS\n"
