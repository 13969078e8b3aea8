// flags: -O1
// options: --instr-atstart=no
//
// A second thread starts the measurement; main, which waits in a call, is measured from there on too.
//
// Ir: any
// uneven: a thread
// call worker leaf 1
// call main leaf 1
// call waits leaf 1
// never leaf worker
// never waits main
// absent before
#include "check.h"
#include "client_request.h"
#include <pthread.h>

APART static void leaf(void) { BARRIER(); }
APART static void before(void) { BARRIER(); }
APART static void *worker(void *a) {
    before();
    START();
    leaf();
    BARRIER();
    return a;
}
APART static void waits(pthread_t t) {
    pthread_join(t, 0);
    leaf();
    BARRIER();
}
int main(void) {
    pthread_t t;
    before();
    CHECK(pthread_create(&t, 0, worker, 0) == 0);
    waits(t);
    leaf();
    STOP();
    return succeed();
}
