# A return that pops arguments, often enough to be translated anew, with a flag that the caller reads.
#
#   _start: mov, 1000 * (push, push, call, jcc, dec, jnz), cmp, jcc, exit 3   = 1 + 6000 + 5
#   take:   1000 * (stc, ret)                                                 = 2000
#
# Ir: 8006 = 6006 + 2000
# self _start 6006
# self take 2000
# call _start take 1000 2000
#include "checks.h"
    .text
function _start
    mov $1000, %ebx
1:  push $7
    push $8
    call take
    jnc 2f
    dec %ebx
    jnz 1b
2:  cmp $0, %ebx
    must e, 1
    exit 0
end _start
function take
    stc
    ret $16
end take
    some_data
