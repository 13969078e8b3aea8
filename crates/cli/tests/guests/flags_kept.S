# Flags, the red zone, the direction flag and registers live over every kind of block border.
# Exits with 0 when all is kept, else with the number of the check.
# Ir: any
    .globl _start
    .type _start, @function
    .type carry, @function
    .type keep, @function
    .text
_start:
    mov $1, %r15d
    stc
    jmp 1f
1:  jc 2f
    jmp bad
2:  mov $2, %r15d
    call carry                  # returns with CF set
    jnc bad
    mov $3, %r15d
    stc
    call keep                   # must see and keep CF
    jnc bad
    mov $4, %r15d
    lea 3f(%rip), %rax
    mov $0x7f, %cl
    add $1, %cl                 # OF and SF set
    jmp *%rax
3:  jno bad
    jns bad
    mov $5, %r15d
    movq $0x1234, -8(%rsp)      # red zone
    movq $0x5678, -128(%rsp)
    mov $100, %ebx
4:  dec %ebx
    jnz 4b
    cmpq $0x1234, -8(%rsp)
    jne bad
    cmpq $0x5678, -128(%rsp)
    jne bad
    mov $6, %r15d
    mov $0x1111, %r10
    mov $0x2222, %r11
    lea keep(%rip), %rdx
    stc
    call *%rdx
    jnc bad
    cmp $0x1111, %r10
    jne bad
    cmp $0x2222, %r11
    jne bad
    mov $7, %r15d
    std
    lea 5f(%rip), %rax
    jmp *%rax
5:  pushf
    pop %rax
    cld
    test $0x400, %eax
    jz bad
    mov $8, %r15d
    xor %ecx, %ecx
    stc
    jrcxz 6f
    jmp bad
6:  jnc bad
    mov $9, %r15d
    mov $3, %ecx
    xor %edx, %edx
7:  inc %edx
    loop 7b
    cmp $3, %edx
    jne bad
    mov $10, %r15d
    mov $39, %eax               # getpid
    syscall
8:  lea 8b(%rip), %rbx
    cmp %rbx, %rcx              # rcx: the next address
    jne bad
    mov $11, %r15d
    lea 9f(%rip), %rbx
    push %rbx
    ret                         # a jump by means of a return
9:  mov $12, %r15d
    lea -16(%rsp), %rsp
    lea 10f(%rip), %rbx
    mov %rbx, (%rsp)
    call *(%rsp)
    jmp 11f
10: ret
11: lea 16(%rsp), %rsp
    xor %r15d, %r15d
bad:
    mov $60, %eax
    mov %r15d, %edi
    syscall
    .size _start, . - _start
carry:
    stc
    ret
    .size carry, . - carry
keep:
    jc 1f
    clc
    ret
1:  ret
    .size keep, . - keep
    .data
    .long 0
