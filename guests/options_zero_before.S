# options: --zero-before=begin
#
# Everything is forgotten when a function is entered for the first time, its own call included; not when
# it calls itself.
#
#   _start: after the call of begin: call, exit 3 = 4
#   begin: dec, js, call, dec, js, ret, ret = 7
#   leaf: nop, ret = 2
#
# Ir: 13 = 4 + 7 + 2
# valgrind: no, it loses what a summary before the zeroing had
# self _start 4
# self begin 4
# self begin'2 3
# self leaf 2
# call _start begin 0 7
# call begin begin'2 1 3
# call _start leaf 1 2
#include "checks.h"
    .text
function _start
    call leaf
    call leaf
    mov $1, %ebx
    call begin
    call leaf
    exit 0
end _start
function begin
    dec %ebx
    js 1f
    call begin
1:  ret
end begin
function leaf
    nop
    ret
end leaf
    some_data
