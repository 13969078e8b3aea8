// flags: -O1
// options: --instr-atstart=no
//
// Measurement starts in a signal handler that interrupted nested calls, and goes on in what was interrupted.
//
// Ir: any
// call handler leaf 1
// call inner leaf 1
// call main leaf 1
// call inner handler 0
// never handler inner
// never leaf handler
// never inner main
// absent before
#include "check.h"
#include "client_request.h"
#include <signal.h>

APART static void leaf(void) { BARRIER(); }
APART static void before(void) { BARRIER(); }
APART static void handler(int number) {
    (void)number;
    START();
    leaf();
    BARRIER();
}
APART static void inner(void) {
    before();
    kill(getpid(), SIGUSR1);
    leaf();
    BARRIER();
}
int main(void) {
    signal(SIGUSR1, handler);
    inner();
    leaf();
    STOP();
    return succeed();
}
