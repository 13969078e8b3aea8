# loop, loope, loopne, jrcxz and jecxz: taken and not, with the count running out and with the flag
# ending it; flags stay as they are.
#
#   loop:    mov, 10 * (inc, loop)                                     1 + 20
#   loopne:  mov, 5 * (cmp, loopne): ends because rax reaches 5 first:
#            mov, xor, 5 * (inc, cmp, loopne)                          2 + 15
#   loope:   mov, 3 * (cmp equal, loope): the count runs out           1 + 6
#   jrcxz:   xor, jrcxz taken, mov, jrcxz not taken                    4
#   jecxz:   mov (only the upper half set), jecxz taken                2
#   loop 32: mov, loopl with ecx = 2 and upper half set                1 + 2
#   flags:   stc, mov, 2 * loop, jc                                    5
#   checks:  3 * 2, exit 3
#
# Ir: 68 = 21 + 17 + 7 + 4 + 2 + 3 + 5 + 6 + 3
# self _start 68
#include "checks.h"
    .text
function _start
    mov $10, %ecx
1:  inc %r12
    loop 1b
    mov $100, %ecx
    xor %eax, %eax
2:  inc %eax
    cmp $5, %eax
    loopne 2b
    cmp $95, %ecx
    must e, 1
    mov $3, %ecx
3:  cmp %eax, %eax
    loope 3b
    xor %ecx, %ecx
    jrcxz 4f
    exit 2
4:  mov $1, %ecx
    jrcxz .Lbad
    movabs $0x100000000, %rcx
    jecxz 5f
.Lbad: exit 3
5:  movabs $0x700000002, %rcx
6:  addr32 loop 6b
    test %rcx, %rcx             # a 32-bit count clears the upper half
    must z, 4
    stc
    mov $2, %ecx
7:  loop 7b
    must c, 5
    cmp $10, %r12
    must e, 6
    exit 0
end _start
    some_data
