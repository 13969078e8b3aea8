// Another thread ends the process while the main thread computes and others wait; the profile has all
// that was counted.
//
// Ir: any
// uneven: threads
// status: 23
// call ends marked 3
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>

static pthread_barrier_t all;
APART static void marked(void) { BARRIER(); }
APART static void *ends(void *a) {
    for (int i = 0; i < 3; i++) marked();
    pthread_barrier_wait(&all);
    exit(23);
    return a;
}
static void *waits(void *a) {
    pthread_barrier_wait(&all);
    pause();
    return a;
}
int main(void) {
    pthread_t t;
    pthread_barrier_init(&all, 0, 4);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&t, 0, waits, 0) == 0);
    CHECK(pthread_create(&t, 0, ends, 0) == 0);
    pthread_barrier_wait(&all);
    for (volatile long n = 0;; n++) BARRIER();
}
