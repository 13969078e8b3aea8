// flags: -O1 -pthread
//
// Parts asked for by two threads, one of them in the place of another that has ended, and zeroing.
//
// Ir: any
#include "check.h"
#include "client_request.h"
#include <pthread.h>

static pthread_barrier_t both;
APART static void leaf(void) { BARRIER(); }
APART static void *work(void *argument) {
    for (long i = 0; i < (long)argument; i++) leaf();
    if ((long)argument == 5) DUMP_AT("in a thread");
    leaf();
    return argument;
}
APART static void *waits(void *argument) {
    leaf();
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    leaf();
    return argument;
}
int main(void) {
    pthread_t first, second;
    leaf();
    DUMP();
    for (long n = 3; n < 6; n++) {
        CHECK(pthread_create(&first, NULL, work, (void *)n) == 0);
        CHECK(pthread_join(first, NULL) == 0);
    }
    CHECK(pthread_barrier_init(&both, NULL, 3) == 0);
    CHECK(pthread_create(&first, NULL, waits, NULL) == 0);
    CHECK(pthread_create(&second, NULL, waits, NULL) == 0);
    pthread_barrier_wait(&both);
    DUMP_AT("in main");
    pthread_barrier_wait(&both);
    CHECK(pthread_join(first, NULL) == 0);
    CHECK(pthread_join(second, NULL) == 0);
    ZERO();
    leaf();
    return succeed();
}
