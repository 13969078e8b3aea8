// A handler on the alternate stack that calls, and one that switches to a coroutine and back, while the
// interrupted code is deep in calls.
//
// flags: -O1
// Ir: any
// call handler handler_work 20
// call deep raise_signal 20
// never handler_work deep
// never deep handler_work
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <ucontext.h>

static ucontext_t interrupted, other;
static volatile int worked, visits;
APART static void handler_work(void) { worked++; }
APART static void body(void) {
    for (;;) {
        visits++;
        swapcontext(&other, &interrupted);
    }
}
APART static void handler(int n) {
    (void)n;
    handler_work();
    swapcontext(&interrupted, &other);
    BARRIER();
}
APART static void raise_signal(void) { CHECK(raise(SIGUSR1) == 0); }
APART static void deep(int n) {
    if (n) deep(n - 1);
    else raise_signal();
    BARRIER();
}
int main(void) {
    static char one[65536], two[65536];
    stack_t alternate = {.ss_sp = one, .ss_size = sizeof one};
    sigaltstack(&alternate, 0);
    struct sigaction a = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &a, 0);
    getcontext(&other);
    other.uc_stack.ss_sp = two, other.uc_stack.ss_size = sizeof two;
    makecontext(&other, body, 0);
    for (int i = 0; i < 20; i++) deep(0);
    CHECK(worked == 20 && visits == 20);
    return succeed();
}
