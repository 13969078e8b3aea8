// Threads end in every way: return, pthread_exit, cancellation at a cancellation point and at once,
// detached; cleanup handlers and destructors of thread-specific data run; robust mutexes tell
// that their owner died.
//
// Ir: any
// uneven: threads
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>

static volatile int cleaned, destroyed, handled;
static sem_t ready;
static pthread_key_t key;
static pthread_mutex_t robust;
static void cleanup(void *p) { *(volatile int *)p += 1; }
static void destroy(void *p) {
    (void)p;
    destroyed++;
}
static void handler(int number) {
    (void)number;
    handled++;
}
static void *exits(void *a) {
    pthread_cleanup_push(cleanup, (void *)&cleaned);
    pthread_setspecific(key, a);
    pthread_exit((void *)11);
    pthread_cleanup_pop(0);
}
static void *sleeps(void *a) {
    pthread_cleanup_push(cleanup, (void *)&cleaned);
    sem_post(&ready);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return a;
}
static void *spins(void *a) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    sem_post(&ready);
    for (volatile long n = 0;; n++) BARRIER();
    return a;
}
static void *dies_with_lock(void *a) {
    CHECK(pthread_mutex_lock(&robust) == 0);
    return a;
}
static void *waits_for_signal(void *a) {
    sem_post(&ready);
    while (handled < 50) {
        struct timespec t = {0, 1000000};
        nanosleep(&t, 0);
    }
    return a;
}
static void *detached(void *a) {
    sem_post(&ready);
    return a;
}
int main(void) {
    sem_init(&ready, 0, 0);
    pthread_key_create(&key, destroy);
    pthread_t t;
    void *result;
    CHECK(pthread_create(&t, 0, exits, (void *)1) == 0 && pthread_join(t, &result) == 0);
    CHECK(result == (void *)11 && cleaned == 1 && destroyed == 1);
    for (int i = 0; i < 20; i++) {
        CHECK(pthread_create(&t, 0, sleeps, 0) == 0);
        sem_wait(&ready);
        CHECK(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED);
        CHECK(cleaned == 2 + i);
        CHECK(pthread_create(&t, 0, spins, 0) == 0);
        sem_wait(&ready);
        CHECK(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED);
    }
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    CHECK(pthread_create(&t, 0, dies_with_lock, 0) == 0 && pthread_join(t, 0) == 0);
    CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD && pthread_mutex_consistent(&robust) == 0);
    CHECK(pthread_mutex_unlock(&robust) == 0);

    signal(SIGUSR1, handler);
    CHECK(pthread_create(&t, 0, waits_for_signal, 0) == 0);
    sem_wait(&ready);
    for (int before; (before = handled) < 50;) {
        CHECK(pthread_kill(t, SIGUSR1) == 0);
        while (handled == before) sched_yield();
    }
    CHECK(pthread_join(t, 0) == 0);

    pthread_attr_t loose;
    pthread_attr_init(&loose);
    pthread_attr_setdetachstate(&loose, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 50; i++) CHECK(pthread_create(&t, &loose, detached, 0) == 0);
    for (int i = 0; i < 50; i++) sem_wait(&ready);
    return succeed();
}
