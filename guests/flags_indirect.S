# Flags across an indirect jump: one target overwrites them, the other reads them and lies 64 KiB behind, where
# a hash of the low bits can't tell the two apart. The second comes up when the first has long been usual.
#
#   _start: mov, 1000 * (lea, lea, cmp, cmov, cmp, stc, jmp), 900 * (sub, jcc), 100 * (jcc, jcc, sub, jcc),
#           exit 3 = 1 + 7000 + 1800 + 400 + 3
#
# Ir: 9204
# self _start 9204
#include "checks.h"
    .text
function _start
    mov $1000, %ebx
1:  lea 2f(%rip), %rcx
    lea 3f(%rip), %rdx
    cmp $100, %ebx
    cmovbe %rdx, %rcx
    cmp %ebx, %ebx
    stc
    jmp *%rcx
2:  sub $1, %ebx
    jnz 1b
    ud2
    .skip 65536 - (. - 2b), 0x90
3:  jnc 4f
    jnz 4f
    sub $1, %ebx
    jnz 1b
    exit 0
4:  exit 1
end _start
    some_data
