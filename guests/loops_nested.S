# Straight code in two nested loops.
#
#   before: 1; outer, 20 times: mov, inner, dec, jnz = 3 + inner; inner, 50 times: add, dec, jnz = 150
#   after: cmp, jcc, exit 3 = 5
#
# Ir: 3066 = 1 + 20 * (3 + 50 * 3) + 5
# self _start 3066
#include "checks.h"
    .text
function _start
    mov $20, %ebx
1:  mov $50, %ecx
2:  add $3, %r12
    dec %ecx
    jnz 2b
    dec %ebx
    jnz 1b
    cmp $3000, %r12
    must e, 1
    exit 0
end _start
    some_data
