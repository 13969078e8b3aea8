// flags: -O1 -pthread
// Four threads generate and run more code than a small code cache holds, while one waits in a system call,
// one has all signals blocked, and signals arrive: the cache is emptied while all of them run.
//
// Ir: any
// uneven: a timer takes part
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { FUNCTIONS = 1500, ROUNDS = 3 };
static long sums[4];
static volatile long ticks;
static int ends[2];
static void tick(int number) { ticks += number == SIGALRM; }
static void *works(void *a) {
    long me = (long)a;
    if (me == 3) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, 0);
    }
    unsigned char *p = mmap(0, FUNCTIONS * 64, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < FUNCTIONS; i++) {
            unsigned char *c = p + i * 64;
            int value = i + round;
            c[0] = 0xb8; /* mov $value, %eax; ret */
            memcpy(c + 1, &value, 4);
            c[5] = 0xc3;
            sums[me] += ((int (*)(void))c)();
        }
    return 0;
}
static void *waits(void *a) {
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    return a;
}
int main(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    CHECK(pipe(ends) == 0);
    pthread_t waiting, t[4];
    void *result;
    CHECK(pthread_create(&waiting, 0, waits, &ticks) == 0);
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &timer, 0);
    for (long i = 0; i < 4; i++) CHECK(pthread_create(&t[i], 0, works, (void *)i) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(t[i], 0) == 0);
    CHECK(write(ends[1], "x", 1) == 1 && pthread_join(waiting, &result) == 0 && result == &ticks);
    for (int i = 0; i < 4; i++) CHECK(sums[i] == (long)FUNCTIONS * (FUNCTIONS - 1) / 2 * ROUNDS + FUNCTIONS * 3);
    return succeed();
}
