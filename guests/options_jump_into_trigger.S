# options: --toggle-collect=tail --zero-before=other
#
# A function with a trigger may be entered by a jump, and left together with the one that jumped.
#
#   tail: nop, ret = 2, three times; only the last two come after the zeroing
#   other: jmp, not collected
#
# Ir: 4
# valgrind: no, it loses what a summary before the zeroing had
# self tail 4
# call _start jumps 1 2
# call jumps tail 1 2
# call _start other 0 2
# call other tail 1 2
#include "checks.h"
    .text
function _start
    call jumps
    call other
    call jumps
    exit 0
end _start
function jumps
    nop
    jmp tail
end jumps
function other
    jmp tail
end other
function tail
    nop
    ret
end tail
    some_data
