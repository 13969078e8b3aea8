# Calls three deep, with several call sites, and a function that is called twice in a row.
#
#   _start: mov, 10 * (call, dec, jnz), call, exit 3  = 1 + 30 + 1 + 3
#   outer:  10 * (call, call, ret)                    = 30
#   middle: 10 * (nop, call, call, ret)               = 40
#   inner:  31 * (inc, ret): 10 from outer, 2 * 10 from middle, 1 from _start
#
# Ir: 167 = 35 + 30 + 40 + 62
# self _start 35
# self outer 30
# self middle 40
# self inner 62
# call _start outer 10 130
# call outer middle 10 80
# call outer inner 10 20
# call middle inner 20 40
# call _start inner 1 2
#include "checks.h"
    .text
function _start
    mov $10, %ebx
1:  call outer
    dec %ebx
    jnz 1b
    call inner
    exit 0
end _start
function outer
    call middle
    call inner
    ret
end outer
function middle
    nop
    call inner
    call inner
    ret
end middle
function inner
    inc %rax
    ret
end inner
    some_data
