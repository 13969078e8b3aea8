// Generated code in memory that is never writable and executable at once: by mprotect in turn, by two
// mappings of one file, by mapping over it, by moving it, by unmapping and mapping again. Each version of
// the code runs often enough to be hot.
//
// Ir: any
// valgrind: no, its default does not see all of this
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

typedef int (*function)(void);

static void put(unsigned char *at, int value) {
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

static void gives(unsigned char *at, int value) {
    for (int j = 0; j < 300; j++) CHECK(((function)at)() == value);
}

static unsigned char *anywhere(void *at, int protection, int flags, int fd) {
    unsigned char *p = mmap(at, 4096, protection, flags, fd, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

int main(void) {
    int private = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *q = anywhere(0, PROT_READ | PROT_WRITE, private, -1);
    for (int i = 0; i < 100; i++) {
        CHECK(mprotect(q, 4096, PROT_READ | PROT_WRITE) == 0);
        put(q + (i % 3) * 64, i);
        CHECK(mprotect(q, 4096, PROT_READ | PROT_EXEC) == 0);
        gives(q + (i % 3) * 64, i);
    }
    int fd = memfd_create("code", 0);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    unsigned char *writable = anywhere(0, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    unsigned char *executable = anywhere(0, PROT_READ | PROT_EXEC, MAP_SHARED, fd);
    for (int i = 0; i < 200; i++) {
        put(writable + (i % 5) * 16, i);
        gives(executable + (i % 5) * 16, i);
    }
    /* Written through the file itself. */
    for (int i = 0; i < 50; i++) {
        unsigned char code[6];
        put(code, i + 1000);
        CHECK(pwrite(fd, code, 6, 0) == 6);
        gives(executable, i + 1000);
    }
    /* Mapped over, unmapped, mapped again at the same place. */
    for (int i = 0; i < 50; i++) {
        unsigned char *m = anywhere(q, PROT_READ | PROT_WRITE, private | MAP_FIXED, -1);
        put(m, i);
        CHECK(mprotect(m, 4096, PROT_READ | PROT_EXEC) == 0);
        gives(m, i);
        CHECK(munmap(m, 4096) == 0);
    }
    /* Moved: the code runs at its new place, other code at the old one. */
    for (int i = 0; i < 20; i++) {
        unsigned char *from = anywhere(0, PROT_READ | PROT_WRITE | PROT_EXEC, private, -1);
        put(from, i);
        gives(from, i);
        unsigned char *to = anywhere(0, PROT_NONE, private, -1);
        CHECK(mremap(from, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
        gives(to, i);
        CHECK(anywhere(from, PROT_READ | PROT_WRITE | PROT_EXEC, private | MAP_FIXED, -1) == from);
        put(from, i + 500);
        gives(from, i + 500);
        gives(to, i);
        munmap(from, 4096);
        munmap(to, 4096);
    }
    /* Discarded: a private page of zeros again, and code anew. */
    unsigned char *d = anywhere(0, PROT_READ | PROT_WRITE | PROT_EXEC, private, -1);
    for (int i = 0; i < 20; i++) {
        put(d, i);
        gives(d, i);
        CHECK(madvise(d, 4096, MADV_DONTNEED) == 0 && d[0] == 0);
    }
    return succeed();
}
