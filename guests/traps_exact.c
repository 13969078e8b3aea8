// Synchronous faults: each handler sees the exact address, the registers as they were at the instruction,
// the right signal, code and address, and may edit the context and resume elsewhere. In code that is cold,
// hot, in the middle of a block, and with flags live.
//
// Ir: any
// limit: flags are lost when the first instruction of a block faults
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

// Each places known values in registers, faults at its label, and goes on at the label after.
// rax..r15 but for rsp: 0x1000 + number; carry set.
#define BEFORE                                                                                      \
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"                       \
    "mov %rsp, saved_rsp(%rip)\n"                                                                   \
    "mov $0x1001, %ebx\n mov $0x1002, %ecx\n mov $0x1003, %edx\n mov $0x1004, %esi\n"               \
    "mov $0x1005, %edi\n mov $0x1006, %ebp\n mov $0x1008, %r8d\n mov $0x1009, %r9d\n"               \
    "mov $0x100a, %r10d\n mov $0x100b, %r11d\n mov $0x100c, %r12d\n mov $0x100d, %r13d\n"           \
    "mov $0x100e, %r14d\n mov $0x100f, %r15d\n mov $0x1000, %eax\n stc\n"
#define AFTER "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
#define FAULT(name, code)                                                                           \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" BEFORE              \
            ".globl at_" #name "\nat_" #name ": " code "\n"                                         \
            ".globl after_" #name "\nafter_" #name ": " AFTER ".size " #name ", . - " #name "\n");  \
    extern void name(void);                                                                         \
    extern char at_##name[], after_##name[];

unsigned long saved_rsp;
FAULT(illegal, "ud2")
FAULT(breakpoint, "int3")
FAULT(load, "mov 0x10, %rax")
FAULT(store, "movq $1, 0x20")
FAULT(modify, "lock addq $1, 0x30")
FAULT(divide, "div %r15b")  // 0x1000 / 0x0f fits not in 8 bits
FAULT(execute, "mov $0x1000, %eax\n stc\n jmp *%rax")
FAULT(general, "movabs $0x8000000000000000, %rbx\n stc\n mov (%rbx), %rax")
FAULT(vector, "movaps (%rsp), %xmm0")  // not aligned to 16
FAULT(string, "mov $0x1005, %edi\n stc\n rep stosb")
FAULT(pushing, "mov $0x100, %esp\n stc\n push %rax")
FAULT(privileged, "hlt")

static volatile int caught;
static char *expected_rip, *resume;
static int expected_signal, expected_code;
static void *expected_address;

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK(number == expected_signal);
    if (expected_code) CHECK(info->si_code == expected_code);
    if (expected_address) CHECK(info->si_addr == expected_address);
    CHECK((char *)r[REG_RIP] == expected_rip);
    CHECK(r[REG_EFL] & 1);
    CHECK(r[REG_RCX] == 0x1002 && r[REG_RDX] == 0x1003);
    CHECK(r[REG_RSI] == 0x1004 && r[REG_RBP] == 0x1006 && r[REG_R8] == 0x1008 && r[REG_R9] == 0x1009);
    CHECK(r[REG_R10] == 0x100a && r[REG_R11] == 0x100b && r[REG_R12] == 0x100c && r[REG_R13] == 0x100d);
    CHECK(r[REG_R14] == 0x100e && r[REG_R15] == 0x100f && r[REG_RAX] == 0x1000);
    CHECK((unsigned long)r[REG_RSP] == (expected_rip == at_pushing + 6 ? 0x100 : saved_rsp));
    r[REG_RSP] = saved_rsp;
    r[REG_RIP] = (greg_t)resume;
    caught++;
}

static void expect(void (*what)(void), char *rip, char *after, int signal_number, int code, void *address) {
    for (int i = 0; i < 60; i++) {
        expected_rip = rip;
        resume = after;
        expected_signal = signal_number;
        expected_code = code;
        expected_address = address;
        int before = caught;
        what();
        CHECK(caught == before + 1);
    }
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, 0) == 0);
    int signals[] = {SIGILL, SIGTRAP, SIGSEGV, SIGFPE, SIGBUS};
    for (unsigned i = 0; i < 5; i++) CHECK(sigaction(signals[i], &action, 0) == 0);
    expect(illegal, at_illegal, after_illegal, SIGILL, ILL_ILLOPN, at_illegal);
    expect(breakpoint, at_breakpoint + 1, after_breakpoint, SIGTRAP, SI_KERNEL, 0);
    expect(load, at_load, after_load, SIGSEGV, SEGV_MAPERR, (void *)0x10);
    expect(store, at_store, after_store, SIGSEGV, SEGV_MAPERR, (void *)0x20);
    expect(modify, at_modify, after_modify, SIGSEGV, SEGV_MAPERR, (void *)0x30);
    expect(divide, at_divide, after_divide, SIGFPE, FPE_INTDIV, at_divide);
    expect(execute, (char *)0x1000, after_execute, SIGSEGV, SEGV_MAPERR, (void *)0x1000);
    expect(general, at_general + 11, after_general, SIGSEGV, SI_KERNEL, 0);
    expect(vector, at_vector, after_vector, SIGSEGV, SI_KERNEL, 0);
    expect(string, at_string + 6, after_string, SIGSEGV, SEGV_MAPERR, (void *)0x1005);
    expect(pushing, at_pushing + 6, after_pushing, SIGSEGV, SEGV_MAPERR, (void *)0xf8);
    expect(privileged, at_privileged, after_privileged, SIGSEGV, SI_KERNEL, 0);
    return succeed();
}
