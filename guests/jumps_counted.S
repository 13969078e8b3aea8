# flags: -g
# options: --collect-jumps=yes
#
# Branches of each kind, both ways, and jumps within a function: straight, over tables, out of loops. Where
# they go and how often is stated in the tests of jumps.
#
#   _start: call, exit 3 = 4
#   main: mov, 10 * (test, jz, cmp, jne, dec, jnz), 5 * inc (odd), 1 jmp, 9 * inc = 1 + 60 + 5 + 1 + 9 = 76
#         mov, 5 * (lea, test, jz, jmp, dec, jnz), 3 * lea (odd), 2 * nop = 1 + 30 + 3 + 2 = 36
#         mov, 4 * loop, ret = 6
#
# Ir: 122 = 4 + 76 + 36 + 6
# self _start 4
# self main 118
# call _start main 1 118
#include "checks.h"
    .text
function _start
    call main
    exit 0
end _start
function main
    mov $10, %ebx
1:  test $1, %bl
    jz 2f
    inc %eax
2:  cmp $3, %ebx
    jne 3f
    jmp 4f
3:  inc %ecx
4:  dec %ebx
    jnz 1b
    mov $5, %ebx
5:  lea 6f(%rip), %rax
    test $1, %bl
    jz 7f
    lea 8f(%rip), %rax
7:  jmp *%rax
6:  nop
8:  dec %ebx
    jnz 5b
    mov $4, %ecx
9:  loop 9b
    ret
end main
    some_data
