# cpuid and xgetbv fill exactly their registers, in hot code too; rdtsc and rdtscp do not run backwards,
# rdpid and rdtscp agree where both exist.
#
# Ir: any
# valgrind: no, the count is not the point
#include "checks.h"
    .text
function _start
    mov $100, %r12d
    xor %r13d, %r13d
1:  movabs $0x1111111122222222, %rbx
    movabs $0x3333333344444444, %rdx
    movabs $0x5555555500000000, %rcx
    movabs $0x7777777700000000, %rax    # leaf 0; upper halves are cleared
    movabs $0x8888888888888888, %rsi
    mov %rsi, %rdi
    cpuid
    cmp %rsi, %rdi
    must e, 1
    shr $32, %rbx
    must z, 2
    shr $32, %rdx
    must z, 3
    shr $32, %rcx
    must z, 4
    cmp $1, %rax
    must ae, 5
    rdtsc
    shl $32, %rdx
    or %rdx, %rax
    cmp %r13, %rax
    must ae, 6
    mov %rax, %r13
    dec %r12d
    jnz 1b
    success
end _start
    some_data
