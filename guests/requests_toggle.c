// flags: -O1
// options: --collect-atstart=no
//
// A request switches collection for the thread that makes it, wherever it is: what is on the stack goes
// on as it was, on the other side. Calls are counted all the time.
//
// Ir: any
// call main outer 1
// call outer inner 1
// call inner leaf 7
// call outer leaf 1
// call main leaf 2
// absent aside
// absent succeed
#include "check.h"
#include "client_request.h"

APART static void aside(void) { BARRIER(); }
APART static void leaf(void) { BARRIER(); }
APART static void inner(int n) {
    if (n) inner(n - 1);
    else TOGGLE_COLLECT();
    leaf();
    BARRIER();
}
APART static void outer(void) {
    inner(6);
    leaf();
    BARRIER();
}
int main(void) {
    aside();
    outer();
    leaf();
    leaf();
    TOGGLE_COLLECT();
    aside();
    return succeed();
}
