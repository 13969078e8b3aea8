# Direct recursion to depth 5 and mutual recursion to depth 6: later activations are level 2.
#
#   _start: mov, call, mov, call, exit 3 = 7
#   down:   edi = 5 to 1: dec, jz, call, ret = 4; the last level dec, jz, ret = 3
#           first activation 4, the others 3 * 4 + 3 = 15
#   even:   edi = 6, 4, 2 (dec, jz, call, ret: never at its end) 4 * 3: first 4, others 8
#   odd:    edi = 5, 3 (4 each), 1 (3): first 4, others 4 + 3
#
# Ir: 49 = 7 + 4 + 15 + 4 + 8 + 4 + 7
# self _start 7
# self down 4
# self down'2 15
# self even 4
# self even'2 8
# self odd 4
# self odd'2 7
# call _start down 1 19
# call down down'2 1 15
# call down'2 down'2 3 21
# call _start even 1 23
# call even odd 1 19
# call odd even'2 1 15
# call even'2 odd'2 2 14
# call odd'2 even'2 1 7
#include "checks.h"
    .text
function _start
    mov $5, %edi
    call down
    mov $6, %edi
    call even
    exit 0
end _start
function down
    dec %edi
    jz 1f
    call down
1:  ret
end down
function even
    dec %edi
    jz 1f
    call odd
1:  ret
end even
function odd
    dec %edi
    jz 1f
    call even
1:  ret
end odd
    some_data
