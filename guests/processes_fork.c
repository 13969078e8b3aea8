// After fork memory is apart, descriptors are shared, the child's ids are its own, its exit status and output
// arrive; from a thread only that thread lives on; thirty in a row; grandchildren; daemonising.
//
// Ir: any
// uneven: children and threads
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

static volatile int value = 1;
APART static long fib(long n) {
    BARRIER();
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
static void *forks(void *a) {
    pid_t child = fork();
    if (child == 0) {
        CHECK(fib(12) == 144);
        exit(44);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 44);
    return a;
}
static void *idles(void *a) {
    for (;;) pause();
    return a;
}
int main(void) {
    int ends[2], status;
    CHECK(pipe(ends) == 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        CHECK(getppid() == parent && getpid() != parent);
        value = 2;
        CHECK(fib(15) == 610 && write(ends[1], "hello", 5) == 5);
        exit(7);
    }
    char text[6] = "";
    CHECK(read(ends[0], text, 5) == 5 && strcmp(text, "hello") == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7 && value == 1);
    CHECK(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);  // no child that is not the guest's

    for (int i = 0; i < 30; i++) {
        child = fork();
        if (child == 0) _exit(i);
        CHECK(waitpid(child, &status, 0) == child && status == i << 8);
    }
    child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(fib(10));
        CHECK(waitpid(grandchild, &status, 0) == grandchild);
        _exit(WEXITSTATUS(status) + 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 56);

    pthread_t t, idle;
    CHECK(pthread_create(&idle, 0, idles, 0) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&t, 0, forks, 0) == 0 && pthread_join(t, 0) == 0);

    // A daemon: its own session, no standard streams, its parent gone before it.
    child = fork();
    if (child == 0) {
        if (setsid() < 0) _exit(1);
        if (fork() != 0) _exit(0);
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0), dup2(null, 1), dup2(null, 2);
        CHECK(fib(10) == 55 && write(ends[1], "daemon", 6) == 6);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    char word[7] = "";
    CHECK(read(ends[0], word, 6) == 6 && strcmp(word, "daemon") == 0);
    return succeed();
}
