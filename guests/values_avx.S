# cpu: avx avx2
# The ymm registers keep their upper halves over every border.
#
# Ir: any
#include "checks.h"
    .text
function _start
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovups .Lin+32*\n(%rip), %ymm\n
    .endr
    call borders
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovups %ymm\n, .Lout+32*\n(%rip)
    .endr
    same .Lin, .Lout, 512, 1
    # Zeroed upper halves stay zero, and a gather and a masked store do what they do.
    vzeroupper
    call borders
    vmovups %ymm3, .Lout(%rip)
    mov .Lout+24(%rip), %rax
    test %rax, %rax
    must z, 2
    lea .Lin(%rip), %rsi
    vmovdqu .Lindex(%rip), %ymm1
    vpcmpeqd %ymm2, %ymm2, %ymm2
    vpgatherdd %ymm2, (%rsi,%ymm1,4), %ymm0
    call borders
    vmovdqu %ymm0, .Lout(%rip)
    mov .Lout+28(%rip), %eax
    cmp .Lin+28(%rip), %eax
    must e, 3
    vpcmpeqd %ymm2, %ymm2, %ymm2
    vpmaskmovd %ymm0, %ymm2, .Lout+64(%rip)
    same .Lout, .Lout+64, 32, 4
    success
end _start
    define_borders
    .data
    .balign 32
.Lin: .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
    .quad 0x0101010101010101 * \n, 0x7fedcba987654321 + \n, 0x1111111111111111 + \n, 0x2222222222222222 + \n
    .endr
.Lindex: .long 0, 1, 2, 3, 4, 5, 6, 7
.Lout: .skip 512
