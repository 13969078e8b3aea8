// flags: -O1 -L{dir} -lskipped -Wl,-rpath,$ORIGIN
// library: libskipped.so -O1 -DLIBRARY
//
// A library is skipped from the moment the program asks for it, under a path that is a link, from within
// a recursive function of the library that main called and that calls back: its frames go on as skipped
// ones, and so do those called later, in code that has run before.
//
// Ir: any
// call main back 8
// call back leaf 9
// call main leaf 1
// never main skipped
// never skipped back
// absent skipped
// absent skipped_end
#include "check.h"
#include "client_request.h"

void skipped(int n, void (*f)(int));
void skipped_end(void);
#ifdef LIBRARY
APART void skipped_end(void) { BARRIER(); }
APART void skipped(int n, void (*f)(int)) {
    if (n) skipped(n - 1, f);
    f(n);
    skipped_end();
    BARRIER();
}
#else
static char path[4096];
static int asked;
APART static void leaf(void) { BARRIER(); }
APART static void back(int n) {
    if (n == 2 && !asked) {
        asked = 1;
        ADD_OBJ_SKIP(path);
        ZERO();
    }
    leaf();
    BARRIER();
}
int main(void) {
    char link[4200];
    CHECK(readlink("/proc/self/exe", path, sizeof path - 32) > 0);
    snprintf(strrchr(path, '/'), 32, "/libskipped.so");
    snprintf(link, sizeof link, "%s.%d", path, getpid());
    CHECK(symlink("libskipped.so", link) == 0);
    strcpy(path, link);
    skipped(4, back);
    CHECK(unlink(link) == 0);
    leaf();
    skipped(5, back);
    return succeed();
}
#endif
