# What guests in assembly share: functions with types and sizes, exits, checks.

.macro function name
    .globl \name
    .type \name, @function
\name:
.endm

.macro end name
    .size \name, . - \name
.endm

# Three instructions.
.macro exit status
    mov $\status, %edi
    mov $60, %eax
    syscall
.endm

# Ends the guest with the check's number unless the condition holds; one instruction when it does.
.macro must condition, number
    j\condition .Lheld\@
    exit \number
.Lheld\@:
.endm

# Valgrind reads the symbols of an object only if it has a data section.
.macro some_data
    .data
    .quad 0
.endm

# Prints EXIT-SUCCESS and exits with 0.
.macro success
    mov $1, %eax
    mov $1, %edi
    lea .Lsuccess(%rip), %rsi
    mov $13, %edx
    syscall
    exit 0
    .pushsection .rodata
.Lsuccess: .ascii "EXIT-SUCCESS\n"
    .popsection
.endm

# Leaves the block in every way there is: jumps, calls, returns, loops, system calls, each in code that is
# new at first, then linked, then hot. Changes rax, rcx, rdx, rbx, r10, r11 and flags.
.macro define_borders
function borders
    mov $200, %ebx
.Lagain:
    call .Lnothing
    lea .Lnothing(%rip), %rax
    call *%rax
    lea .Lon(%rip), %rax
    jmp *%rax
.Lon:
    mov $3, %ecx
.Lcount:
    loop .Lcount
    test $7, %bl
    jnz .Lfew
    mov $39, %eax
    syscall
    xor %eax, %eax
    xor %ecx, %ecx
    cpuid_kept
.Lfew:
    call .Ltail
    dec %ebx
    jnz .Lagain
    ret
.Ltail:
    jmp .Lnothing
.Lnothing:
    ret
end borders
.endm

# cpuid changes rbx.
.macro cpuid_kept
    mov %rbx, %r10
    cpuid
    mov %r10, %rbx
.endm

# Compares length bytes at two places: one instruction when they are equal, after seven to set up.
.macro same a, b, length, number
    lea \a(%rip), %rsi
    lea \b(%rip), %rdi
    mov $\length, %ecx
    cld
    repe cmpsb
    must e, \number
.endm

# A request to the profiler by number, without further arguments: eight instructions, of which the last
# five are the sequence that a profiler recognises. Changes rax and rdx.
.macro request number
    lea .Lrequest\@(%rip), %rax
    movq $\number, (%rax)
    xor %edx, %edx
    rol $3, %rdi
    rol $13, %rdi
    rol $61, %rdi
    rol $51, %rdi
    xchg %rbx, %rbx
    .pushsection .data
.Lrequest\@: .quad 0, 0, 0, 0, 0, 0
    .popsection
.endm
    .set request_running_on_valgrind, 0x1001
