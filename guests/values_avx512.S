# cpu: avx512f avx512bw avx512vl avx512dq
# The zmm and mask registers keep their values over every border; masked and broadcast forms with
# RIP-relative operands (compressed displacements).
#
# Ir: any
# valgrind: no, it does not know AVX-512
#include "checks.h"
    .text
function _start
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    vmovups .Lin+64*\n(%rip), %zmm\n
    .endr
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    kmovq .Lin+8*\n(%rip), %k\n
    .endr
    call borders
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    vmovups %zmm\n, .Lout+64*\n(%rip)
    .endr
    same .Lin, .Lout, 2048, 1
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7
    kmovq %k\n, .Lout+8*\n(%rip)
    .endr
    same .Lin, .Lout, 64, 2
    mov $0x5555, %eax
    kmovw %eax, %k1
    vpaddd .Lone(%rip){1to16}, %zmm0, %zmm1{%k1}{z}
    call borders
    vmovups %zmm1, .Lout(%rip)
    mov .Lout(%rip), %eax
    sub $1, %eax
    cmp .Lin(%rip), %eax
    must e, 3
    mov .Lout+4(%rip), %eax
    test %eax, %eax
    must z, 4
    # Alignment of the compressed displacement: a load 64 bytes on from a register.
    lea .Lin(%rip), %rsi
    vmovdqu64 64(%rsi), %zmm31
    vmovdqu64 %zmm31, .Lout(%rip)
    same .Lin+64, .Lout, 64, 5
    success
end _start
    define_borders
    .data
    .balign 64
.Lin: .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32
    .quad 0x0101010101010101 * \n, 0x7fedcba987654321 + \n, 0x1111111111111111 + \n, 0x2222222222222222 + \n
    .quad 0x0202020202020202 * \n, 0x6fedcba987654321 + \n, 0x3111111111111111 + \n, 0x4222222222222222 + \n
    .endr
.Lone: .long 1
.Lout: .skip 2048
