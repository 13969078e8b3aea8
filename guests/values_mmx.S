# cpu: mmx
# The mm registers keep their values over every border.
#
# Ir: any
#include "checks.h"
    .text
function _start
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    movq .Lin+8*\n(%rip), %mm\n
    .endr
    call borders
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    movq %mm\n, .Lout+8*\n(%rip)
    .endr
    emms
    same .Lin, .Lout, 64, 1
    movq .Lin(%rip), %mm1
    paddb .Lin+8(%rip), %mm1
    pshufw $0x1b, %mm1, %mm2
    call borders
    movd %mm2, %eax
    emms
    cmp $0x03030303, %eax
    must e, 2
    success
end _start
    define_borders
    .data
.Lin: .irp n, 1, 2, 3, 4, 5, 6, 7, 8
    .quad 0x0101010101010101 * \n
    .endr
.Lout: .skip 64
