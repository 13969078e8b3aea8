# Tail calls by jmp and by jcc: a jump to a function's first instruction is a call, and both return
# together. A jump into the middle of another function is none,
# and what runs there is cost of the function that jumped.
#
#   _start: mov, 10 * (call, dec, jnz), mov, call, call, exit 3
#   tail:   10 * (nop, jmp)
#   leaf:   10 + 1 times (nop, nop, ret), from tail and chooser
#   chooser: test, jz: taken when edi is 0
#   jumper: nop, jmp into leaf's middle, nop, ret
#
# Ir: 96 = 37 + 20 + 33 + 2 + 4
# self _start 37
# self tail 20
# self leaf 33
# self chooser 2
# self jumper 4
# call _start tail 10 50
# call tail leaf 10 30
# call _start chooser 1 5
# call chooser leaf 1 3
# call _start jumper 1 4
#include "checks.h"
    .text
function _start
    mov $10, %ebx
1:  call tail
    dec %ebx
    jnz 1b
    xor %edi, %edi
    call chooser
    call jumper
    exit 0
end _start
function tail
    nop
    jmp leaf
end tail
function leaf
    nop
.Lmiddle:
    nop
    ret
end leaf
function chooser
    test %edi, %edi
    jz leaf
    ret
end chooser
function jumper
    nop
    jmp .Lmiddle
end jumper
    some_data
