// flags: -O1
// options: --skip-plt=no
//
// A stub of the procedure linkage table is a function like others, named by its address.
//
// Ir: any
// call main direct 1
// never main rand
// never direct rand
#include "check.h"

APART static int direct(void) { return rand() ^ rand(); }
int main(void) {
    CHECK((rand() | rand() | rand()) >= 0);
    direct();
    return succeed();
}
