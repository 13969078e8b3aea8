/* The same work by one thread or by several; no lock is held for long. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static long total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) static long step(long x) { return x * 6364136223846793005l + 1442695040888963407l; }
static void *work(void *argument) {
    long n = (long)argument, x = 1;
    for (long i = 0; i < n; i++) x = step(x);
    pthread_mutex_lock(&lock);
    total += x;
    pthread_mutex_unlock(&lock);
    return 0;
}
int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 4, n = argc > 2 ? atol(argv[2]) : 120000000;
    pthread_t t[64];
    for (long i = 0; i < threads; i++) pthread_create(&t[i], 0, work, (void *)(n / threads));
    for (long i = 0; i < threads; i++) pthread_join(t[i], 0);
    printf("%ld\n", total != 0);
    return 0;
}
