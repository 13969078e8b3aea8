# options: --fn-skip=mid* --fn-skip=?kip
#
# What skipped functions cost, and what they call, is their caller's: at the calling instruction. A
# skipped function called by another one changes nothing.
#
#   _start: call, exit 3 = 4
#   main: mov, 4 * (call, dec, jnz), call, ret = 15; in its place middle: 4 * (nop, call, call, ret) = 16,
#         skip: 4 * (call, ret) = 8
#   outer: call, nop, ret = 3; in its place middle and skip: 4 + 2
#   leaf: 10 * (inc, ret) = 20
#
# Ir: 72 = 4 + 15 + 16 + 8 + 3 + 6 + 20
# self _start 4
# self main 39
# self outer 9
# self leaf 20
# call _start main 1 68
# call main leaf 8 16
# call main outer 1 13
# call outer leaf 2 4
#include "checks.h"
    .text
function _start
    call main
    exit 0
end _start
function main
    mov $4, %ebx
1:  call middle
    dec %ebx
    jnz 1b
    call outer
    ret
end main
function outer
    call middle
    nop
    ret
end outer
function middle
    nop
    call skip
    call leaf
    ret
end middle
function skip
    call leaf
    ret
end skip
function leaf
    inc %rax
    ret
end leaf
    some_data
