# options: --separate-callers2=leaf --separate-callers1=mid?le
#
# Some functions are told apart by who called them, and the others are not: the callers are part of
# the name, nearest first.
#
#   _start: 4 * call, exit 3 = 7
#   first, second: 2 * (call, ret) = 4 and 2 * (call, ret) = 4
#   middle: 4 * (call, ret) = 8
#   leaf: 4 * (nop, ret) = 8
#
# Ir: 31 = 7 + 4 + 4 + 8 + 8
# self _start 7
# self first 4
# self second 4
# self middle'first 4
# self middle'second 4
# self leaf'middle'first 4
# self leaf'middle'second 4
# call _start first 2 12
# call _start second 2 12
# call first middle'first 2 8
# call second middle'second 2 8
# call middle'first leaf'middle'first 2 4
# call middle'second leaf'middle'second 2 4
#include "checks.h"
    .text
function _start
    call first
    call second
    call first
    call second
    exit 0
end _start
function first
    call middle
    ret
end first
function second
    call middle
    ret
end second
function middle
    call leaf
    ret
end middle
function leaf
    nop
    ret
end leaf
    some_data
