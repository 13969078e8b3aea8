# Code that is entered in the middle: a block within a longer one, a loop entered at its test, and an
# instruction whose last bytes are instructions of their own.
#
#   block:       20 times: even passes enter at 'half' (3 of 6 nops), odd ones at its start:
#                mov once; test, jnz, [6 or 3 nops], dec, jnz = 4 + 6 or 3
#   loop:        mov, jmp to the test, 10 times (dec, jns), 9 times nop: dec from 9 to -1 runs 10 times
#   overlapping: xor, xor, mov (as a whole), test, jnz, inc, jmp, then inc and jmp out of the
#                immediate, test, jnz = 11; cmp, jcc, exit 3 = 5
#
# Ir: 218 = 1 + 20 * 4 + 10 * 6 + 10 * 3 + 2 + 10 * 2 + 9 + 11 + 5
# self _start 218
#include "checks.h"
    .text
function _start
    mov $20, %ecx
1:  test $1, %cl
    jz .Lhalf
    nop
    nop
    nop
.Lhalf:
    nop
    nop
    nop
    dec %ecx
    jnz 1b

    mov $9, %ecx
    jmp 3f
2:  nop
3:  dec %ecx
    jns 2b

    xor %r12d, %r12d
    xor %ebx, %ebx
.Lover:
    .byte 0xb8                  # mov $imm32, %eax, whose immediate is: inc %ebx; jmp .Lover + 5
    inc %ebx
    jmp 4f
4:  test %r12d, %r12d
    jnz 5f
    inc %r12d
    jmp .Lover + 1
5:  cmp $1, %ebx
    must e, 1
    exit 0
end _start
    some_data
