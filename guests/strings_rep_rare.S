# repne cmpsb: ended by the 2nd pair, decided by the last of 3 pairs, and never equal in 4; rep lodsb of 4.
#
#   3 * (lea, lea, mov); 2 + 3 + 5; 3 checks of one jcc; lea, mov, 5, cmp, jcc; exit 3
#
# Ir: 34 = 9 + 10 + 3 + 9 + 3
# self _start 34
# valgrind: no, it does not know repne cmpsb and runs rep lodsb once
#include "checks.h"
.macro compare with, count
    lea text(%rip), %rsi
    lea \with(%rip), %rdi
    mov $\count, %ecx
    repne cmpsb
.endm
    .text
function _start
    compare second, 8
    must e, 1
    compare third, 3
    must e, 2
    compare other, 4
    must ne, 3
    lea text(%rip), %rsi
    mov $4, %ecx
    rep lodsb
    cmp $'d', %al
    must e, 4
    exit 0
end _start
    .data
text: .ascii "abcdefgh"
second: .ascii "xbzzzzzz"
third: .ascii "xyc"
other: .ascii "xxxx"
