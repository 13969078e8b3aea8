// flags: -O1 -fomit-frame-pointer
// options: --instr-atstart=no
//
// Measurement starts three calls deep and goes on until main stops it: frames from before are returned
// into and never called, the next call of each real caller is its own.
//
// Ir: any
// call inner leaf 2
// call middle leaf 1
// call outer leaf 1
// call main leaf 1
// call main inner 1
// call middle inner 0
// call outer middle 0
// call main outer 0
// never inner middle
// never middle outer
// never outer main
// never leaf inner
// absent before
// absent later
#include "check.h"
#include "client_request.h"

APART static void leaf(void) { BARRIER(); }
APART static void before(void) { BARRIER(); }
APART static void later(void) { BARRIER(); }
APART static void inner(int first) {
    if (first) START();
    leaf();
    BARRIER();
}
APART static void middle(void) {
    inner(1);
    leaf();
    BARRIER();
}
APART static void outer(void) {
    middle();
    leaf();
    BARRIER();
}
int main(void) {
    before();
    outer();
    leaf();
    inner(0);
    STOP();
    later();
    return succeed();
}
