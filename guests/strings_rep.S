# rep on every string instruction: a count of zero, counts that run out, comparisons that end it first, and
# backwards. Each iteration counts one; when the count ends it, the last test counts one more.
#
#   movsb 100: 101    movsw 5: 6    movsl 3: 4    movsq 2: 3    stosb 7: 8    stosq 10: 11
#   movsb 0: 1
#   repne scasb, found at the 5th: 5; not in 20 bytes: 21
#   repe scasb, ended by the 3rd: 3; 6 equal bytes: 7
#   repe cmpsb, 8 equal bytes: 9; ended by the 4th pair: 4
#   std; rep movsb 10: 11
#
#   set-up: 14 * 3; std, cld; 6 checks of one jcc, as the flags are those of the comparisons; at the end
#   lea, cmp, jcc and exit 3
#
# Ir: 250 = 101 + 6 + 4 + 3 + 8 + 11 + 1 + 5 + 21 + 3 + 7 + 9 + 4 + 11 + 42 + 2 + 6 + 3 + 3
# self _start 250
#include "checks.h"
.macro two from, to, count
    lea \from(%rip), %rsi
    lea \to(%rip), %rdi
    mov $\count, %ecx
.endm
.macro one at, value, count
    lea \at(%rip), %rdi
    mov $\value, %eax
    mov $\count, %ecx
.endm
    .text
function _start
    two from, to, 100
    rep movsb
    two from, to, 5
    rep movsw
    two from, to, 3
    rep movsl
    two from, to, 2
    rep movsq
    one to, 9, 7
    rep stosb
    one to, 9, 10
    rep stosq
    two from, to, 0
    rep movsb
    one text, 'e', 20
    repne scasb
    must e, 1
    one text, '!', 20
    repne scasb
    must ne, 2
    one same, 'x', 6
    repe scasb              # xxy
    must ne, 3
    one same+3, 'z', 6
    repe scasb
    must e, 4
    two text, text, 8
    repe cmpsb
    must e, 5
    two text, other, 8
    repe cmpsb
    must ne, 6
    std
    two from+50, to+50, 10
    rep movsb
    cld
    lea from+40(%rip), %rax
    cmp %rax, %rsi
    must e, 7
    exit 0
end _start
    .data
text: .ascii "abcdefghijklmnopqrstuvwxyz"
other: .ascii "abcXefgh"
same: .ascii "xxyzzzzzz"
from: .fill 128, 1, 7
to: .fill 128, 1, 0
