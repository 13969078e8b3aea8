// flags: -O1
// options: --instr-atstart=no
//
// After measurement has started deep in the stack, a longjmp leaves all frames that were there; later calls
// are those of who makes them.
//
// Ir: any
// call inner leaf 1
// call main leaf 2
// call main outer 1
// call outer inner 1
// never inner main
// never inner outer
#include "check.h"
#include "client_request.h"
#include <setjmp.h>

static jmp_buf back;
APART static void leaf(void) { BARRIER(); }
APART static void inner(int leaps) {
    if (leaps) {
        START();
        leaf();
        longjmp(back, 1);
    }
    BARRIER();
}
APART static void outer(int leaps) {
    inner(leaps);
    BARRIER();
}
int main(void) {
    if (setjmp(back) == 0) outer(1);
    leaf();
    leaf();
    outer(0);
    STOP();
    return succeed();
}
