// flags: -O1
// Self-modifying code: the next instruction is changed by the one before it, by an instruction of the
// same page in a loop, and a function is rewritten between calls, cold and hot.
//
// Ir: any
// valgrind: no, its default does not see all of this
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

typedef int (*function)(void);

static void put(unsigned char *at, int value) {
    at[0] = 0xb8; /* mov $value, %eax */
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3; /* ret */
}

int main(void) {
    unsigned char *p =
        mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    for (int i = 0; i < 1000; i++) {
        put(p, i);
        CHECK(((function)p)() == i);
    }
    for (int i = 0; i < 100; i++) {
        put(p + 100, i);
        for (int j = 0; j < 200; j++) CHECK(((function)(p + 100))() == i);
    }
    /* movb $IMM, 1(%rip): the low byte of the immediate of the mov that follows. */
    static const unsigned char next[] = {0xc6, 0x05, 1, 0, 0, 0, 42, 0xb8, 1, 0, 0, 0, 0xc3};
    memcpy(p + 200, next, sizeof next);
    for (int i = 0; i < 200; i++) {
        p[208] = 99;
        p[206] = (unsigned char)i;
        CHECK(((function)(p + 200))() == (i & 255));
    }
    /* A loop that counts in its own immediate: incb 1(%rip); mov $0, %al; cmp $100, %al; jb. */
    static const unsigned char count[] = {0x31, 0xc0, 0xfe, 0x05, 1, 0,    0, 0,
                                          0xb0, 0,    0x3c, 100,  0x72, 0xf4, 0xc3};
    memcpy(p + 300, count, sizeof count);
    CHECK(((function)(p + 300))() == 100);
    /* Code on two pages, its end changed. */
    memcpy(p + 4094, "\xb8\x05\x00\x00\x00\xc3", 6);
    CHECK(((function)(p + 4094))() == 5);
    p[4096] = 1;
    CHECK(((function)(p + 4094))() == 0x105);
    /* Written by the kernel. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < 50; i++) {
        CHECK(((function)(p + 4094))() >= 0);
        CHECK(write(ends[1], &i, 4) == 4);
        CHECK(read(ends[0], p + 4095, 4) == 4);
        CHECK(((function)(p + 4094))() == i);
    }
    return succeed();
}
