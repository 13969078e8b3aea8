# cpu: xsave avx
# xsave and xrstor over borders: the whole state is saved, changed and restored; fxsave and fxrstor too.
#
# Ir: any
# valgrind: no, the count is not the point
#include "checks.h"
    .text
function _start
    xor %ecx, %ecx
    xgetbv
    and $6, %eax
    cmp $6, %eax
    must e, 1
    vmovups .Lin(%rip), %ymm5
    movups .Lin(%rip), %xmm6
    fninit
    fildl .Lnumber(%rip)
    mov $7, %eax
    xor %edx, %edx
    xsave .Larea(%rip)
    call borders
    vxorps %ymm5, %ymm5, %ymm5
    xorps %xmm6, %xmm6
    fninit
    call borders
    mov $7, %eax
    xor %edx, %edx
    xrstor .Larea(%rip)
    call borders
    vmovups %ymm5, .Lout(%rip)
    fistpl .Lout+32(%rip)
    same .Lin, .Lout, 32, 2
    cmpl $4321, .Lout+32(%rip)
    must e, 3
    movups %xmm6, .Lout(%rip)
    same .Lin, .Lout, 16, 4
    fxsave .Larea(%rip)
    call borders
    xorps %xmm6, %xmm6
    fxrstor .Larea(%rip)
    call borders
    movups %xmm6, .Lout(%rip)
    same .Lin, .Lout, 16, 5
    success
end _start
    define_borders
    .data
.Lnumber: .long 4321
.Lin: .quad 1, 2, 3, 4
.Lout: .skip 64
    .bss
    .balign 64
.Larea: .skip 8192
