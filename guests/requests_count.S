# A request counts as one instruction, as it does under Valgrind; without a profiler it gives the default.
#
#   3 times lea, movq, xor and the request; add; exit 3
#
# Ir: 16 = 3 * 4 + 1 + 3
# self _start 16
#include "checks.h"
    .text
function _start
    request running_on_valgrind
    request 0x7777
    add %rdx, %rdi
    request 0x4711
    exit 0
end _start
    some_data
