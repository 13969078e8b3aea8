# Every conditional jump, taken and not taken, short and near; and jumps that depend on the pass.
#
#   16 conditions: push, popf, jcc taken, push, popf, jcc not taken = 6 each
#   the loop runs 100 times, ecx = 100 to 1; a pass through it:
#     test, jz (taken when even), inc when odd      2, and 50 in all
#     cmp, ja (taken above 60), inc otherwise       2, and 60 in all
#     js not taken, jns taken                       2
#     dec, jnz                                      2
#   before: mov; after: two checks of cmp and jcc, exit 3
#
# Ir: 1014 = 16 * 6 + 1 + 100 * 8 + 50 + 60 + 2 * 2 + 3
# self _start 1014
#include "checks.h"
.macro both condition, holds, fails
    push $\holds
    popf
    j\condition .Ltaken\@
    exit 9
.Ltaken\@:
    push $\fails
    popf
    j\condition .Lfar
.endm
    .text
function _start
    both o, 0x800, 0
    both no, 0, 0x800
    both c, 1, 0
    both nc, 0, 1
    both z, 0x40, 0
    both nz, 0, 0x40
    both be, 1, 0
    both a, 0, 0x40
    both s, 0x80, 0
    both ns, 0, 0x80
    both p, 4, 0
    both np, 0, 4
    both l, 0x80, 0x880
    both ge, 0x880, 0x80
    both le, 0x40, 0
    both g, 0, 0x800
    mov $100, %ecx
1:  test $1, %cl
    jz 2f
    inc %r12
2:  cmp $60, %ecx
    ja 3f
    inc %r13
3:  js .Lbad
    jns 4f
.Lbad: exit 1
4:  dec %ecx
    jnz 1b
    cmp $50, %r12
    must e, 2
    cmp $60, %r13
    must e, 3
    exit 0
    .skip 200, 0xcc
.Lfar: exit 10
end _start
    some_data
