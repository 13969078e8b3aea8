// Handlers in handlers, longjmp out of them, out of nested ones, off the alternate stack; the mask after
// each; a context that the handler edits: another address, another register, another mask.
//
// Ir: any
// unstressed: flush, inclusive cost of a handler's tail call holds its return
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile int level, seen;

static void outer(int number) {
    (void)number;
    level++;
    raise(SIGUSR2);
    level--;
    seen++;
}
static void inner(int number) {
    (void)number;
    CHECK(level == 1);
    sigset_t now;
    sigprocmask(SIG_BLOCK, 0, &now);
    CHECK(sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
    seen++;
}
static void leap(int number) {
    (void)number;
    siglongjmp(back, 7);
}
static void leap_deep(int number) {
    (void)number;
    raise(SIGHUP);
}

APART static int compute(int n) { return n < 2 ? n : compute(n - 1) + compute(n - 2); }

static void edit(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *u = context;
    u->uc_mcontext.gregs[REG_RIP] += 2;  // over ud2
    u->uc_mcontext.gregs[REG_RAX] = 1234567;
    u->uc_mcontext.gregs[REG_R15] += 1;
    u->uc_mcontext.gregs[REG_EFL] |= 1;
    sigaddset(&u->uc_sigmask, SIGHUP);
}

int main(void) {
    signal(SIGUSR1, outer);
    signal(SIGUSR2, inner);
    for (int i = 0; i < 50; i++) raise(SIGUSR1);
    CHECK(seen == 100 && level == 0);

    signal(SIGTERM, leap);
    signal(SIGINT, leap_deep);
    signal(SIGHUP, leap);
    for (int i = 0; i < 50; i++) {
        volatile int sum = 0;
        int got = sigsetjmp(back, 1);
        if (got == 0) {
            sum += compute(5);
            raise(i & 1 ? SIGTERM : SIGINT);
            CHECK(!"a jump comes first");
        }
        CHECK(got == 7 && sum == 5);
        sigset_t now;
        sigprocmask(SIG_BLOCK, 0, &now);
        CHECK(!sigismember(&now, SIGTERM) && !sigismember(&now, SIGINT) && !sigismember(&now, SIGHUP));
        CHECK(compute(10) == 55);
    }

    static char stack[32768];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, state;
    CHECK(sigaltstack(&alternate, 0) == 0);
    struct sigaction on_stack = {.sa_handler = leap, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGSEGV, &on_stack, 0) == 0);
    for (int i = 0; i < 50; i++) {
        if (sigsetjmp(back, 1) == 0) *(volatile int *)8 = 1;
        CHECK(sigaltstack(0, &state) == 0 && state.ss_flags == 0);  // not on it any more
    }

    struct sigaction editing = {.sa_sigaction = edit, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGILL, &editing, 0) == 0);
    for (int i = 0; i < 50; i++) {
        unsigned long rax = 1, r15 = 10 + i;
        unsigned char carry;
        __asm__ volatile("mov %3, %%r15\n clc\n ud2\n setc %2\n mov %%r15, %1"
                         : "+a"(rax), "=r"(r15), "=r"(carry)
                         : "r"(r15)
                         : "r15", "cc", "memory");
        CHECK(rax == 1234567 && r15 == 11ul + i && carry == 1);
        sigset_t now;
        sigprocmask(SIG_BLOCK, 0, &now);
        CHECK(sigismember(&now, SIGHUP));
        sigemptyset(&now);
        sigprocmask(SIG_SETMASK, &now, 0);
    }
    return succeed();
}
