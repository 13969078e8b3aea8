# Calls, tail calls, recursion and a call through a register, counted by hand.
#
# main loop: mov, 10 * (call, dec, jnz), then recursion and exit.
#   _start: 1 + 10*3 + 2 (mov, call rec) + 2 (lea, call *) + 3 (exit) = 38
#   leaf:   10 * 3 (via tail: jmp counts in tail) + 1 * 3 (call *)    = 33
#   tail:   10 * 2 (nop, jmp)                                         = 20
#   rec:    called with 4: levels 4,3,2,1 run dec, jz, call, ret      (4 each)
#           and the last dec, jz, ret (3): level 1 has 4, 'rec'2' 2*4 + 3 = 11
# Ir: 106
# self _start 38
# self leaf 33
# self tail 20
# self rec 4
# self rec'2 11
# call _start tail 10 50
# call tail leaf 10 30
# call _start rec 1 15
# call rec rec'2 1 11
# call rec'2 rec'2 2 10
# call _start leaf 1 3
    .globl _start
    .type _start, @function
    .type leaf, @function
    .type tail, @function
    .type rec, @function
    .text
_start:
    mov $10, %ebx
1:  call tail
    dec %ebx
    jnz 1b
    mov $4, %edi
    call rec
    lea leaf(%rip), %rax
    call *%rax
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
leaf:
    nop
    nop
    ret
    .size leaf, . - leaf
tail:
    nop
    jmp leaf
    .size tail, . - tail
rec:
    dec %edi
    jz 1f
    call rec
1:  ret
    .size rec, . - rec
    .data
    .long 0
