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
