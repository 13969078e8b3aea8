# Labels without a type inside a function are no functions: entering them by a jump or by falling
# through does not leave it.
#
#   _start: mov, 5 * (test, jz, [nop], dec, jnz): nop when ecx is 5, 3, 1; jmp, nop, exit 3
#
# Ir: 29 = 1 + 5 * 4 + 3 + 2 + 3
# limit: labels without a type are taken for functions
# self _start 29
#include "checks.h"
    .text
function _start
    mov $5, %ecx
again:
    test $1, %cl
    jz even
    nop
even:
    dec %ecx
    jnz again
    jmp last
    nop
last:
    nop
finish:
    exit 0
end _start
    some_data
