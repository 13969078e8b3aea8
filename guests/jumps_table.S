# Jumps through a table of offsets (as compilers make for switch) and through a table of addresses (as
# for computed goto), each with four targets in changing order.
#
#   offsets:   xor; 100 times: mov, and, movslq, add, jmp * = 5, target: inc, jmp = 2, inc, cmp, jb = 3;
#              lea once before
#   addresses: xor, lea; 100 times: mov, and, jmp *mem = 3, target: inc, then inc, cmp, jb = 3, without
#              the jmp for the last target (25 times less)
#   after:     4 * (cmp, jcc), exit 3
#
# Ir: 1790 = 2 + 100 * 10 + 2 + 100 * 8 - 25 + 8 + 3
# self _start 1790
#include "checks.h"
    .text
function _start
    lea offsets(%rip), %rdx
    xor %ebx, %ebx
1:  mov %ebx, %eax
    and $3, %eax
    movslq (%rdx,%rax,4), %rcx
    add %rdx, %rcx
    jmp *%rcx
.Lt0: inc %r8
    jmp 2f
.Lt1: inc %r9
    jmp 2f
.Lt2: inc %r10
    jmp 2f
.Lt3: inc %r11
    jmp 2f
2:  inc %ebx
    cmp $100, %ebx
    jb 1b
    xor %ebx, %ebx
    lea addresses(%rip), %rdx
3:  mov %ebx, %eax
    and $3, %eax
    jmp *(%rdx,%rax,8)
.Lu0: inc %r8
    jmp 4f
.Lu1: inc %r9
    jmp 4f
.Lu2: inc %r10
    jmp 4f
.Lu3: inc %r11
4:  inc %ebx
    cmp $100, %ebx
    jb 3b
    cmp $50, %r8
    must e, 1
    cmp $50, %r9
    must e, 2
    cmp $50, %r10
    must e, 3
    cmp $50, %r11
    must e, 4
    exit 0
end _start
    .data
    .balign 8
addresses: .quad .Lu0, .Lu1, .Lu2, .Lu3
offsets: .long .Lt0 - offsets, .Lt1 - offsets, .Lt2 - offsets, .Lt3 - offsets
