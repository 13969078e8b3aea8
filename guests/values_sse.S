# The xmm registers and MXCSR keep their values over every border; denormals and rounding follow MXCSR.
#
# Ir: any
#include "checks.h"
    .text
function _start
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movups .Lin+16*\n(%rip), %xmm\n
    .endr
    ldmxcsr .Lmode(%rip)
    call borders
    stmxcsr .Lgot(%rip)
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movups %xmm\n, .Lout+16*\n(%rip)
    .endr
    same .Lin, .Lout, 256, 1
    mov .Lgot(%rip), %eax
    cmp %eax, .Lmode(%rip)
    must e, 2
    movsd .Lhalf(%rip), %xmm0           # rounds up: 2.5 gives 3
    call borders
    cvtsd2si %xmm0, %eax
    cmp $3, %eax
    must e, 3
    success
end _start
    define_borders
    .data
    .balign 16
.Lin: .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
    .quad 0x0101010101010101 * \n, 0x7fedcba987654321 + \n
    .endr
.Lmode: .long 0xdfc0                    # rounds up, flushes to zero, denormals are zero
.Lhalf: .double 2.5
.Lgot: .long 0
.Lout: .skip 256
