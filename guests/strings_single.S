# String instructions without rep, in both directions: one each.
#
#   2 * (lea, lea); movsb, movsw, movsl, movsq; lea, cmp, jcc; lodsb, stosq, cmpsb, scasb; std, movsb, cld;
#   lea, cmp, jcc; exit 3
#
# Ir: 24 = 4 + 4 + 3 + 4 + 3 + 3 + 3
# self _start 24
# valgrind: no, it does not know cmpsb without rep
#include "checks.h"
    .text
function _start
    lea from(%rip), %rsi
    lea to(%rip), %rdi
    movsb
    movsw
    movsl
    movsq
    lea from+15(%rip), %rax
    cmp %rax, %rsi
    must e, 1
    lea from+8(%rip), %rsi
    lea to+8(%rip), %rdi
    lodsb
    stosq
    cmpsb
    scasb
    std
    movsb
    cld
    lea from+9(%rip), %rax
    cmp %rax, %rsi
    must e, 2
    exit 0
end _start
    .data
from: .fill 128, 1, 7
to: .fill 128, 1, 0
