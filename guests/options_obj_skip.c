// flags: -O1 -L{dir} -lleftout -Wl,-rpath,$ORIGIN
// library: libleftout.so -O1 -DLIBRARY
// options: --obj-skip=libleftout.so
//
// An object named by its base name is skipped: what it calls is called by the function that called it,
// and its recursion, tail calls and callbacks are nobody's.
//
// Ir: any
// call main back 16
// call back leaf 16
// never main leftout
// absent leftout
// absent leftout_tail
#include "check.h"

void leftout(int n, void (*f)(int));
#ifdef LIBRARY
APART void leftout_tail(int n, void (*f)(int)) {
    f(n);
    f(n);
    BARRIER();
}
APART void leftout(int n, void (*f)(int)) {
    if (n) leftout(n - 1, f);
    f(n);
    if (n == 4) leftout_tail(n, f);
}
#else
APART static void leaf(void) { BARRIER(); }
APART static void back(int n) {
    leaf();
    BARRIER();
}
int main(void) {
    leftout(4, back);
    leftout(5, back);
    leftout(-0, back);
    return succeed();
}
#endif
