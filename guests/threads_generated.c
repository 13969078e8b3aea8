// Two threads run the same generated code while a third rewrites it between two versions: each call
// gives one of both, and after a barrier only the newest.
//
// Ir: any
// uneven: threads
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

typedef int (*function)(void);
static unsigned char *code;
static pthread_barrier_t step;
static volatile int stop, newest;

static void *runs(void *a) {
    for (int round = 0; round < 60; round++) {
        pthread_barrier_wait(&step);
        for (int i = 0; i < 500; i++) CHECK(((function)code)() == newest);
        pthread_barrier_wait(&step);
        while (!stop) {
            int got = ((function)(code + 64))();
            CHECK(got == 1 || got == 2);
        }
        pthread_barrier_wait(&step);
    }
    return a;
}
int main(void) {
    code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    memcpy(code, "\xb8\0\0\0\0\xc3", 6);
    memcpy(code + 64, "\x90\x90\x90\xb8\1\0\0\0\xc3", 9);  // the immediate does not cross 8 bytes
    pthread_barrier_init(&step, 0, 3);
    pthread_t t[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&t[i], 0, runs, 0) == 0);
    for (int round = 0; round < 60; round++) {
        newest = round;
        memcpy(code + 1, (void *)&round, 4);
        stop = 0;
        pthread_barrier_wait(&step);
        pthread_barrier_wait(&step);
        for (int i = 0; i < 20; i++) *(volatile unsigned char *)(code + 68) = (unsigned char)(1 + (i & 1));
        stop = 1;
        pthread_barrier_wait(&step);
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(t[i], 0) == 0);
    return succeed();
}
