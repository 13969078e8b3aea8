// longjmp over frames leaves the graph right: what main calls after it is main's child, each function's calls
// are counted, and none gets a caller that it never had.
//
// flags: -O1
// Ir: any
// call main setting 50
// call setting down 50
// call down down 150
// call main after 50
// never down after
// never setting after
// never down main
// never down setting
#include "check.h"
#include <setjmp.h>

static jmp_buf back;
APART static void down(int n) {
    if (n == 0) longjmp(back, 1);
    down(n - 1);
    BARRIER();
}
APART static int setting(void) {
    if (setjmp(back) == 0) down(3);
    BARRIER();
    return 1;
}
APART static void after(void) { BARRIER(); }
int main(void) {
    for (int i = 0; i < 50; i++) {
        CHECK(setting() == 1);
        after();
    }
    return succeed();
}
