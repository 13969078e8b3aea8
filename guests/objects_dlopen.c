// flags: -O1 -ldl
// library: libone.so -O1 -DLIBRARY=1
// library: libtwo.so -O1 -DLIBRARY=2
//
// Libraries loaded, called, closed and loaded again, often at the same address with other code: never
// stale code, and the functions keep their objects apart.
//
// Ir: any
// limit: costs in unloaded objects are lost
// call calls answer 60
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

#ifdef LIBRARY
#if LIBRARY == 2
APART int answer(int n) { BARRIER(); return n * 3 - 1; }
__attribute__((constructor)) static void at_load(void) { setenv("LOADED", "two", 1); }
#else
__attribute__((constructor)) static void at_load(void) { setenv("LOADED", "one", 1); }
APART int answer(int n) { BARRIER(); return n * 2; }
#endif
#else
static char dir[4096];
APART static int calls(int (*f)(int), int n) { BARRIER(); return f(n) + 1; }
int main(void) {
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    CHECK(n > 0);
    *strrchr(dir, '/') = 0;
    char path[5000];
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/lib%s.so", dir, i & 1 ? "two" : "one");
        void *library = dlopen(path, RTLD_NOW);
        CHECK(library && strcmp(getenv("LOADED"), i & 1 ? "two" : "one") == 0);
        int (*f)(int) = (int (*)(int))dlsym(library, "answer");
        CHECK(f);
        for (int j = 0; j < 3; j++) CHECK(calls(f, j) == (i & 1 ? j * 3 : j * 2 + 1));
        CHECK(dlclose(library) == 0);
    }
    return succeed();
}
#endif
