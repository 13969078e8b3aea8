/* What guests in C share: a check that ends the guest, saying where, and the last line. */
#ifndef CHECK_H
#define CHECK_H
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

static inline __attribute__((cold, noreturn)) void check_failed(const char *file, int line, const char *what) {
    dprintf(2, "%s:%d: not so: %s (errno %d)\n", file, line, what, errno);
    _exit(1);
}

/* A function that stays one, and a barrier that no computation is moved over. */
#define APART __attribute__((noinline, noclone))
#define BARRIER() __asm__ volatile("" ::: "memory")

static inline int succeed(void) {
    puts("EXIT-SUCCESS");
    return 0;
}
#endif
