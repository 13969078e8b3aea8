// A storm of signals in code that calls much: the results are right, and so is the call graph: only
// "fib" and "main" call "fib", and every call is counted.
//
// Ir: any
// uneven: a timer interrupts
// call main fib 40
// never tick fib
// never tick main
// never fib main
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <time.h>

static volatile long ticks;
APART static long work(long n) { return n * 3; }
APART static void tick(int number) {
    (void)number;
    ticks += work(1) / 3;
}
APART static long fib(long n) {
    BARRIER();
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int main(void) {
    struct sigaction a = {.sa_handler = tick, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGRTMIN, &a, 0) == 0);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec often = {{0, 300000}, {0, 300000}};
    CHECK(timer_settime(timer, 0, &often, 0) == 0);
    for (int i = 0; i < 40; i++) CHECK(fib(18) == 2584);
    struct timespec pause = {0, 1000000};
    while (ticks < 3) nanosleep(&pause, 0);
    timer_delete(timer);
    return succeed();
}
