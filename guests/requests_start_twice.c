// flags: -O1
// options: --instr-atstart=no
//
// Started twice in a row, stopped, and started again elsewhere: the second START changes nothing, what ran
// between does not appear, and each time the frames that are there are the callers.
//
// Ir: any
// call first leaf 2
// call second leaf 1
// call main leaf 1
// never leaf first
// never second first
// never first main
// absent between
#include "check.h"
#include "client_request.h"

APART static void leaf(void) { BARRIER(); }
APART static void between(void) { BARRIER(); }
APART static void first(void) {
    START();
    leaf();
    START();
    leaf();
    STOP();
    STOP();
    between();
    BARRIER();
}
APART static void second(void) {
    between();
    START();
    leaf();
    BARRIER();
}
int main(void) {
    first();
    between();
    second();
    leaf();
    STOP();
    return succeed();
}
