// flags: -O1
// A program that has parts of its profile written while it runs sees no child of it: no SIGCHLD, nothing
// to wait for, whatever it does with the signal.
//
// Ir: any
// call main work 1
#define _GNU_SOURCE
#include "check.h"
#include "client_request.h"
#include <signal.h>
#include <sys/wait.h>

static volatile int seen;
static void handler(int number) { seen += number == SIGCHLD; }
APART static void work(void) { BARRIER(); }

int main(void) {
    struct sigaction a = {.sa_handler = handler};
    CHECK(sigaction(SIGCHLD, &a, 0) == 0);
    work();
    DUMP();
    a.sa_flags = SA_NOCLDWAIT;
    CHECK(sigaction(SIGCHLD, &a, 0) == 0);
    work();
    DUMP_AT("a reason");
    signal(SIGCHLD, SIG_IGN);
    work();
    DUMP();
    signal(SIGCHLD, SIG_DFL);
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, 0);
    work();
    DUMP();
    CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGCHLD));
    errno = 0;
    CHECK(waitpid(-1, 0, WNOHANG) == -1 && errno == ECHILD);
    work();  // the one that the last part holds
    CHECK(seen == 0);
    return succeed();
}
