// flags: -O1 -Wl,-z,now -fno-builtin -L{dir} -Wl,-rpath,$ORIGIN -lplt
// library: libplt.so -O1 -DLIBRARY
//
// Calls through the procedure linkage table, bound at the start: the function in the library is
// called by the caller of the stub each time and the stub itself is skipped.
//
// Ir: any
// call main inside 101
// call inside deeper 101
#include "check.h"

#ifdef LIBRARY
APART static int deeper(int n) { BARRIER(); return n + 1; }
APART int inside(int n) { BARRIER(); return deeper(n) + 1; }
#else
int inside(int n);
int main(void) {
    CHECK(inside(5) == 7);
    for (int i = 0; i < 100; i++) CHECK(inside(i) == i + 2);
    return succeed();
}
#endif
