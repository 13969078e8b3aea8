// The main thread ends before the others; the process ends with the last, with status 0.
//
// Ir: any
// uneven: threads
// call later work 7
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>

APART static void work(void) { BARRIER(); }
static pthread_t main_thread;
APART static void *later(void *a) {
    CHECK(pthread_join(main_thread, 0) == 0);
    for (int i = 0; i < 7; i++) work();
    puts("EXIT-SUCCESS");
    return a;
}
int main(void) {
    main_thread = pthread_self();
    pthread_t t;
    CHECK(pthread_create(&t, 0, later, 0) == 0);
    pthread_exit(0);
}
