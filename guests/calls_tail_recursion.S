# A function that ends in a jump to its own first instruction, and two that jump to each other.
#
#   _start: mov, call, mov, call, exit 3
#   again:  edi = 4 to 1: dec, jnz (taken 3 times) to itself; the last: dec, jnz, ret = 3 * 2 + 3
#   ping, pong: edi = 4 to 0: ping 4, pong 3, ping 2, pong 1, ping 0 ends: dec, js, jmp = 3; last dec, js, ret
#
# Ir: 31 = 7 + 9 + 15
# self _start 7
# self again 2
# self again'2 7
# self ping 3
# self pong 3
# self ping'2 6
# self pong'2 3
# call _start again 1 9
# call again again'2 1 7
# call again'2 again'2 2 8
# call _start ping 1 15
# call ping pong 1 12
# call pong ping'2 1 9
# call ping'2 pong'2 1 6
# call pong'2 ping'2 1 3
#include "checks.h"
    .text
function _start
    mov $4, %edi
    call again
    mov $4, %edi
    call ping
    exit 0
end _start
function again
    dec %edi
    jnz again
    ret
end again
function ping
    dec %edi
    js 1f
    jmp pong
1:  ret
end ping
function pong
    dec %edi
    js 1f
    jmp ping
1:  ret
end pong
    some_data
