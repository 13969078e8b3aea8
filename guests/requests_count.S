# A request counts as the five instructions it consists of; an unknown one gives the default.
#
#   3 times lea, movq, xor and the request of 5; add; exit 3
#
# Ir: 28 = 3 * 8 + 1 + 3
# self _start 28
# valgrind: no, it counts a request as one instruction
#include "checks.h"
    .text
function _start
    request request_running_on_valgrind
    request 0x7777
    add %rdx, %rdi
    request 0x4711
    exit 0
end _start
    some_data
