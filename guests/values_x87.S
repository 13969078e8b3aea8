# The x87 stack, its control and status words keep their values over every border: eight different
# numbers, reduced precision, and the top of the stack.
#
# Ir: any
#include "checks.h"
    .text
function _start
    fninit
    fldcw .Lmode(%rip)
    .irp n, 1, 2, 3, 4, 5, 6, 7, 8
    fildl .Lnumbers+4*(\n-1)(%rip)
    .endr
    call borders
    fnstsw %ax
    and $0x3800, %eax                   # the top: eight are pushed, so zero
    must z, 1
    fnstcw .Lgot(%rip)
    mov .Lgot(%rip), %ax
    cmp %ax, .Lmode(%rip)
    must e, 2
    .irp n, 8, 7, 6, 5, 4, 3, 2, 1
    fistpl .Lout(%rip)
    mov .Lout(%rip), %eax
    cmp %eax, .Lnumbers+4*(\n-1)(%rip)
    must e, 3
    .endr
    fldl .Lhalf(%rip)                   # rounds down: 2.75 gives 2
    call borders
    fistpl .Lout(%rip)
    cmpl $2, .Lout(%rip)
    must e, 4
    # fcomi and fcmov over borders.
    fld1
    fldz
    fcomi %st(1), %st
    jmp 1f
1:  fcmovb %st(1), %st
    fistpl .Lout(%rip)
    cmpl $1, .Lout(%rip)
    must e, 5
    success
end _start
    define_borders
    .data
.Lnumbers: .long 11, -22, 33, -44, 55, -66, 77, -88
.Lhalf: .double 2.75
.Lmode: .word 0x067f                    # rounds down, double precision, exceptions masked
.Lgot: .word 0
.Lout: .long 0
