// Default actions end a child with the right signal; ignored and continued ones do not; a core dump is
// reported as natively; abort works with SIGABRT handled or blocked.
//
// Ir: any
// uneven: children
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void nothing(int number) { (void)number; }

static int ends(void (*what)(void)) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        what();
        _exit(77);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}
static void terminates(void) { raise(SIGTERM); }
static void kills(void) { kill(getpid(), SIGKILL); }
static void faults(void) { *(volatile int *)16 = 1; }
static void illegal(void) { __asm__ volatile("ud2"); }
static void traps(void) { __asm__ volatile("int3"); }
static void divides(void) {
    __asm__ volatile("xor %%ecx, %%ecx\n div %%ecx" ::: "eax", "ecx", "edx");
}
static void aborts(void) {
    signal(SIGABRT, nothing);
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGABRT);
    sigprocmask(SIG_BLOCK, &s, 0);
    abort();
}
static void ignores(void) {
    raise(SIGCHLD);
    raise(SIGURG);
    raise(SIGWINCH);
    raise(SIGCONT);
    signal(SIGTERM, SIG_IGN);
    raise(SIGTERM);
    _exit(5);
}
static void blocked_fault(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    signal(SIGSEGV, nothing);
    *(volatile int *)16 = 1;  // blocked, so the kernel ends the process all the same
}
static void ignored_fault(void) {
    signal(SIGSEGV, SIG_IGN);
    *(volatile int *)16 = 1;
}
static void broken_pipe(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    close(p[0]);
    CHECK(write(p[1], "x", 1) == -2);
}
static void alarm_clock(void) {
    alarm(1);
    for (;;) pause();
}

int main(void) {
    CHECK(WTERMSIG(ends(terminates)) == SIGTERM);
    CHECK(WTERMSIG(ends(kills)) == SIGKILL);
    CHECK(WTERMSIG(ends(faults)) == SIGSEGV);
    CHECK(WTERMSIG(ends(illegal)) == SIGILL);
    CHECK(WTERMSIG(ends(traps)) == SIGTRAP);
    CHECK(WTERMSIG(ends(divides)) == SIGFPE);
    CHECK(WTERMSIG(ends(aborts)) == SIGABRT);
    CHECK(WEXITSTATUS(ends(ignores)) == 5);
    CHECK(WTERMSIG(ends(blocked_fault)) == SIGSEGV);
    CHECK(WTERMSIG(ends(ignored_fault)) == SIGSEGV);
    CHECK(WTERMSIG(ends(broken_pipe)) == SIGPIPE);
    CHECK(WTERMSIG(ends(alarm_clock)) == SIGALRM);

    pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        _exit(9);
    }
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(kill(child, SIGCONT) == 0);
    CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
    return succeed();
}
