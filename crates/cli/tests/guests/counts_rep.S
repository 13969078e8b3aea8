# Repeated string instructions: each iteration counts, and once more when the count ends the loop.
#
#   rep movsb 100:  101        rep stosq 10: 11       rep movsb 0: 1
#   repne scasb that finds the byte at the 5th place: 5 (ended by the comparison)
#   repe cmpsb over 8 equal bytes: 9 (ended by the count)
#   _start: lea, lea, mov (3) + 101 + xor, mov, lea (3) + 11 + xor (1) + 1
#           + lea, mov, mov (3) + 5 + lea, lea, mov (3) + 9 + exit 3 = 143
# Ir: 143
# self _start 143
    .globl _start
    .type _start, @function
    .text
_start:
    lea from(%rip), %rsi
    lea to(%rip), %rdi
    mov $100, %ecx
    rep movsb
    xor %eax, %eax
    mov $10, %ecx
    lea to(%rip), %rdi
    rep stosq
    xor %ecx, %ecx
    rep movsb
    lea text(%rip), %rdi
    mov $'e', %eax
    mov $20, %ecx
    repne scasb
    lea text(%rip), %rdi
    lea text(%rip), %rsi
    mov $8, %ecx
    repe cmpsb
    mov $60, %eax
    xor %edi, %edi
    syscall
    .size _start, . - _start
    .data
text: .ascii "abcdefghijklmnopqrstuvwxyz"
from: .fill 128, 1, 7
to: .fill 128, 1, 0
