# Returns that are jumps: into the same function, to the start of another function, and the call and
# return pair that compilers make against speculation (retpoline).
#
#   _start:  mov, 5 * (call, dec, jnz), lea, call, exit 3
#   same:    5 * (lea, push, ret), then 5 * (nop, ret) as if called
#   retpoline: call, then as if called itself (mov, ret); the target's nop and ret
#
# Like Callgrind, a return that belongs to no call is a call of the function it leads to, unless that
# has ended a call on the way.
#
# Ir: 51 = 21 + 15 + 10 + 3 + 2
# self _start 21
# self same 15
# self same'2 10
# self retpoline 3
# self retpoline'2 2
# call _start same 5 25
# call same same'2 5 10
# call _start retpoline 1 5
# call retpoline retpoline'2 1 2
#include "checks.h"
    .text
function _start
    mov $5, %ebx
1:  call same
    dec %ebx
    jnz 1b
    lea target(%rip), %r11
    call retpoline
    exit 0
end _start
function same
    lea 1f(%rip), %rax
    push %rax
    ret
    exit 7
1:  nop
    ret
end same
function retpoline
    call 1f
2:  pause
    jmp 2b
1:  mov %r11, (%rsp)
    ret
end retpoline
function target
    nop
    ret
end target
    some_data
