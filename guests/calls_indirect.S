# Calls through registers, memory, a table and RIP-relative memory; one call site with four targets.
#
#   _start: mov; 40 times: mov, and, lea, call, inc, cmp, jb = 7; call [rip], lea, call [reg], exit 3 = 6
#   f0..f3: inc, ret, 10 times each; f0 once more, f1 once more
#
# Ir: 371 = 1 + 40 * 7 + 6 + 42 * 2
# self _start 287
# self f0 22
# self f1 22
# self f2 20
# self f3 20
# call _start f0 11 22
# call _start f1 11 22
# call _start f2 10 20
# call _start f3 10 20
#include "checks.h"
    .text
function _start
    xor %ebx, %ebx
1:  mov %ebx, %eax
    and $3, %eax
    lea table(%rip), %rdx
    call *(%rdx,%rax,8)
    inc %ebx
    cmp $40, %ebx
    jb 1b
    call *table(%rip)
    lea table+8(%rip), %rax
    call *(%rax)
    exit 0
end _start
.irp n, 0, 1, 2, 3
function f\n
    inc %r8
    ret
end f\n
.endr
    .data
    .balign 8
table: .quad f0, f1, f2, f3
