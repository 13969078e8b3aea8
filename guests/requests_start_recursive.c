// flags: -O1
// options: --instr-atstart=no
//
// Measurement starts at the end of a recursion, a hundred thousand deep: the returns are returns,
// and nobody calls anew.
//
// Ir: any
// unstressed: flush, each flush walks the whole shadow stack, so the time is quadratic in its depth
// call begin leaf 1
// call descend begin 0
// call main leaf 1
// call descend descend 0
// never leaf descend
// never descend main
#include "check.h"
#include "client_request.h"

APART static void leaf(void) { BARRIER(); }
APART static void begin(void) {
    START();
    leaf();
}
APART static void descend(int n) {
    if (n == 0) {
        begin();
    } else {
        descend(n - 1);
    }
    BARRIER();
}
int main(void) {
    descend(100000);
    leaf();
    STOP();
    return succeed();
}
