# options: --toggle-collect=work
#
# Costs are collected while a function is active, from its first instruction to its return; within it,
# recursion changes nothing. Calls are counted even outside, where some of them cost something.
#
#   _start: call, mov, 3 * (call, dec, jnz), call, exit: not collected
#   work: 3 * (call, call, ret) = 9, and once more, called by inner: 3
#   inner: 3 * (cmp, jne, call, ret), one of them with dec, call, inc = 15, and once more: 4
#   leaf: 8 * (nop, ret) = 16
#   around: call, call, ret, twice: not collected
#
# Ir: 47 = 0 + 9 + 3 + 15 + 4 + 16
# self work 9
# self work'2 3
# self inner 15
# self inner'2 4
# self leaf 16
# call _start work 3 47
# call work inner 3 32
# call work leaf 3 6
# call inner leaf 5 6
# call inner work'2 1 11
# call work'2 inner'2 1 6
# call work'2 leaf 1 2
# call inner'2 leaf 1 2
#include "checks.h"
    .text
function _start
    call around
    mov $3, %ebx
1:  call work
    dec %ebx
    jnz 1b
    call around
    exit 0
end _start
function work
    call inner
    call leaf
    ret
end work
function inner
    cmp $2, %ebx
    jne 1f
    dec %ebx
    call work
    inc %ebx
1:  call leaf
    ret
end inner
function leaf
    nop
    ret
end leaf
function around
    call inner
    call leaf
    ret
end around
    some_data
