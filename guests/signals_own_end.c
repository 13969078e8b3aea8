// A guest that dies of a signal leaves a profile and dies of the same signal.
//
// Ir: any
// signal: 11
// call main work 1
#include "check.h"

APART static void work(void) { BARRIER(); }

int main(void) {
    work();
    *(volatile int *)24 = 1;
    return 0;
}
