# References of every kind, for comparison with Valgrind. No libc, no .data; clobbers everything.
#
# Random reads, writes and read-modify-writes of 1 to 16 bytes, many across lines; streams up and
# down; code that does not fit I1; the same low address bits in two places 4 GiB apart; branches
# that depend on a random number, and indirect jumps and calls.

        .set    AREA, 0x100000
        .set    ROUNDS, 6000

        .bss
        .balign 4096
area:   .skip   AREA + 64

        .section .rodata
        .balign 8
table:  .quad   case0, case1, case2, case3

        .text
        .globl  _start

        # rax = next random number, from r12
        .macro  random
        imul    $1103515245, %r12, %r12
        add     $12345, %r12
        mov     %r12, %rax
        shr     $12, %rax
        .endm

        # rdi = address in the area
        .macro  somewhere
        random
        and     $AREA - 1, %eax
        lea     area(%rax), %rdi
        .endm

_start:
        mov     $20260801, %r12d

        mov     $ROUNDS, %ebp
1:      somewhere
        mov     (%rdi), %rbx
        somewhere
        mov     %rbx, (%rdi)
        somewhere
        add     %rbx, (%rdi)
        somewhere
        movups  (%rdi), %xmm0
        somewhere
        movups  %xmm0, (%rdi)
        somewhere
        incb    (%rdi)
        # Some locality.
        and     $-4096, %rdi
        mov     8(%rdi), %ebx
        mov     %bx, 60(%rdi)
        mov     %rbx, 124(%rdi)
        dec     %ebp
        jnz     1b

        # Up, then down.
        lea     area(%rip), %rdi
        mov     $4000, %ebp
1:      mov     (%rdi), %rbx
        mov     %rbx, 24(%rdi)
        add     $40, %rdi
        dec     %ebp
        jnz     1b
        mov     $4000, %ebp
1:      sub     $40, %rdi
        mov     %ebx, (%rdi)
        dec     %ebp
        jnz     1b

        # Two places with the same low 32 bits.
        mov     $0x200000000, %rdi
        call    map
        mov     $0x300000000, %rdi
        call    map
        mov     $0x200000000, %rdi
        mov     $0x300000000, %rbx
        mov     $512, %ebp
1:      mov     (%rdi), %rax
        mov     %rax, 8(%rbx)
        add     $64, %rdi
        add     $64, %rbx
        dec     %ebp
        jnz     1b

        # 50 KiB of code, three times.
        mov     $3, %ebp
1:      .rept   5000
        lea     0x12345678(%rbx,%rax), %rbx
        add     $1, %ebx
        .endr
        dec     %ebp
        jnz     1b

        # Branches.
        mov     $ROUNDS, %ebp
1:      random
        test    $1, %al
        jz      2f
        inc     %ebx
2:      test    $6, %al
        jnz     3f
        inc     %ebx
3:      mov     %ebp, %ecx
        and     $7, %ecx
        cmp     $3, %ecx
        ja      4f
        jmp     *table(,%rcx,8)
case0:  inc     %ebx
case1:  inc     %ebx
case2:  inc     %ebx
case3:  inc     %ebx
4:      random
        and     $1, %eax
        lea     one(%rip), %rsi
        lea     other(%rip), %rdi
        test    %eax, %eax
        jne     5f
        mov     %rdi, %rsi
5:      call    *%rsi
        dec     %ebp
        jne     1b

        mov     $60, %eax
        xor     %edi, %edi
        syscall

one:    inc     %ebx
        ret
other:  dec     %ebx
        ret

        # Maps 64 KiB at rdi.
map:    mov     $9, %eax
        mov     $0x10000, %esi
        mov     $3, %edx
        mov     $0x32, %r10d
        mov     $-1, %r8
        xor     %r9d, %r9d
        syscall
        ret
