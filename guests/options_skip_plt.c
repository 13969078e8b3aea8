// flags: -O1 -fcf-protection=full -Wl,-z,lazy -Wl,-z,ibtplt
// options: --skip-plt=yes
//
// Stubs of every kind of procedure linkage table are skipped, those in `.plt.sec` too: what they lead to
// is called by the function that called them, the first time by way of the loader.
//
// Ir: any
// call main rand 3
// call calls rand 2
#include "check.h"

APART static int calls(void) { return rand() ^ rand(); }
int main(void) {
    CHECK((rand() | rand() | rand()) >= 0);
    calls();
    return succeed();
}
