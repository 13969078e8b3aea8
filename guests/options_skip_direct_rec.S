# options: --skip-direct-rec=yes
#
# A function that calls itself stays at its level; one that calls itself by way of another does not.
#
#   _start: mov, call, mov, call, exit 3 = 7
#   self: 3 * (dec, js) + 2 * call + 3 * ret = 11
#   there: 3 * (dec, js) + 2 * call + 3 * ret = 11: one level 1 (4), then level 2 (4 + 3)
#   back: 2 * (call, ret) = 4: level 1, then level 2
#
# Ir: 33 = 7 + 11 + 11 + 4
# self _start 7
# self self 11
# self there 4
# self there'2 7
# self back 2
# self back'2 2
# call _start self 1 11
# call self self 2 10
# call _start there 1 15
# call there back 1 11
# call back there'2 1 9
# call there'2 back'2 1 5
# call back'2 there'2 1 3
#include "checks.h"
    .text
function _start
    mov $2, %ebx
    call self
    mov $2, %ebx
    call there
    exit 0
end _start
function self
    dec %ebx
    js 1f
    call self
1:  ret
end self
function there
    dec %ebx
    js 1f
    call back
1:  ret
end there
function back
    call there
    ret
end back
    some_data
