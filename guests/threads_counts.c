// Four threads call the same functions at once; counts are exact sums, whoever runs first.
//
// Ir: any
// uneven: locks are taken in any order
// call worker leaf 40000
// call worker fib 4
// never main leaf
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>

static pthread_barrier_t start;
APART static long leaf(long n) {
    BARRIER();
    return n + 1;
}
APART static long fib(long n) {
    BARRIER();
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
APART static void *worker(void *argument) {
    pthread_barrier_wait(&start);
    long sum = 0;
    for (int i = 0; i < 10000; i++) sum = leaf(sum);
    CHECK(sum == 10000 && fib(15) == 610);
    return argument;
}

int main(void) {
    pthread_t threads[4];
    pthread_barrier_init(&start, 0, 4);
    for (long i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], 0, worker, (void *)i) == 0);
    for (long i = 0; i < 4; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)i);
    }
    return succeed();
}
