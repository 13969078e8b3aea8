// A stack that overflows into its guard page is handled on the alternate stack, in main and in a thread,
// and the program goes on.
//
// flags: -O1
// Ir: any
// uneven: depth depends on the environment's size
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>

static __thread sigjmp_buf back;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    CHECK(info->si_addr != 0);
    siglongjmp(back, 1);
}
APART static long forever(volatile long *n) {
    volatile char frame[1000];
    frame[0] = (char)*n;
    ++*n;
    return forever(n) + frame[0];
}
static void *overflow(void *unused) {
    static __thread char stack[32768];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, 0) == 0);
    for (int i = 0; i < 3; i++) {
        volatile long n = 0;
        if (sigsetjmp(back, 1) == 0) forever(&n);
        CHECK(n > 50);
    }
    return unused;
}
int main(void) {
    struct rlimit small = {1 << 20, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_STACK, &small) == 0);
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    CHECK(sigaction(SIGSEGV, &a, 0) == 0);
    overflow(0);
    pthread_t t;
    CHECK(pthread_create(&t, 0, overflow, 0) == 0 && pthread_join(t, 0) == 0);
    return succeed();
}
