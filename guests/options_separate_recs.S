# options: --separate-recs=1 --separate-recs3=down
#
# Levels of recursion are told apart for one function alone.
#
#   _start: mov, call, mov, call, exit 3 = 7
#   down: 5 * (dec, js) + 4 * call + 5 * ret = 19; levels 1 and 2 have 4 each, level 3 has 4 + 4 + 3
#   flat: the same, 19
#
# Ir: 45 = 7 + 19 + 19
# valgrind: no, it writes the number of a context of this function for another function
# self _start 7
# self down 4
# self down'2 4
# self down'3 11
# self flat 19
# call _start down 1 19
# call down down'2 1 15
# call down'2 down'3 1 11
# call down'3 down'3 2 10
# call _start flat 1 19
# call flat flat 4 36
#include "checks.h"
    .text
function _start
    mov $4, %ebx
    call down
    mov $4, %ebx
    call flat
    exit 0
end _start
function down
    dec %ebx
    js 1f
    call down
1:  ret
end down
function flat
    dec %ebx
    js 1f
    call flat
1:  ret
end flat
    some_data
