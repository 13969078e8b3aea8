// flags: -O1 -Wl,-z,execstack
// Code on the stack: nested functions whose address is taken, at changing depths.
//
// Ir: any
#include "check.h"

static int apply(int (*f)(int), int x) { return f(x); }

APART static int depth(int n) {
    int k = n;
    int add(int z) { return z + k; }
    if (n == 0) return apply(add, 1);
    return apply(add, depth(n - 1));
}

int main(void) {
    for (int i = 0; i < 200; i++) {
        volatile int shift = i;
        int twice(int z) { return 2 * z + shift; }
        int (*volatile f)(int) = twice;
        for (int j = 0; j < 20; j++) CHECK(f(j) == 2 * j + i);
    }
    CHECK(depth(20) == 1 + 210);
    return succeed();
}
