// Thousands of short threads, one after another and in crowds; thread-local storage and stacks are their
// own; nothing grows without end.
//
// Ir: any
// unstressed: flush, each thread leaves 14 KB behind
// unstressed: no-links, each thread leaves 14 KB behind
// unstressed: no-ibl, each thread leaves 14 KB behind
// uneven: threads
// call body once 2400
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

static __thread int own = 5;
APART static void once(void) { BARRIER(); }
APART static void *body(void *argument) {
    CHECK(own == 5);
    own = (int)(long)argument;
    once();
    CHECK(own == (int)(long)argument);
    return (void *)(long)own;
}
static long resident(void) {
    long size, pages;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%ld %ld", &size, &pages) == 2);
    fclose(f);
    return pages;
}
int main(void) {
    pthread_t t;
    void *result;
    long before = 0;
    for (long i = 0; i < 2000; i++) {
        if (i == 500) before = resident();
        CHECK(pthread_create(&t, 0, body, (void *)i) == 0);
        CHECK(pthread_join(t, &result) == 0 && result == (void *)i);
    }
    CHECK(resident() < before + 2000);
    pthread_t crowd[40];
    for (int round = 0; round < 10; round++) {
        for (long i = 0; i < 40; i++) CHECK(pthread_create(&crowd[i], 0, body, (void *)i) == 0);
        for (long i = 0; i < 40; i++) CHECK(pthread_join(crowd[i], &result) == 0 && result == (void *)i);
    }
    return succeed();
}
