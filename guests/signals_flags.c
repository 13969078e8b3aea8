// Each flag of sigaction: SA_SIGINFO and without, SA_NODEFER, SA_RESETHAND, SA_ONSTACK, SA_RESTART and without,
// SA_NOCLDSTOP and SA_NOCLDWAIT; the mask during a handler; what sigaction reports back.
//
// Ir: any
// uneven: a child and a timer take part
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

static volatile int count, depth, deepest;
static volatile unsigned long where;

static void plain(int number) { count += number == SIGUSR1; }

static void deferring(int number) {
    if (++depth > deepest) deepest = depth;
    if (count++ < 5) raise(number);
    depth--;
}

static void informed(int number, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    CHECK(info->si_signo == number && info->si_pid == getpid() && info->si_uid == getuid());
    CHECK(info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_QUEUE);
    if (info->si_code == SI_QUEUE) CHECK(info->si_value.sival_int == 4711);
    CHECK(u->uc_mcontext.gregs[REG_RSP] != 0);
    where = (unsigned long)__builtin_frame_address(0);
    sigset_t now;
    sigprocmask(SIG_BLOCK, 0, &now);
    CHECK(sigismember(&now, number) && sigismember(&now, SIGUSR2) && !sigismember(&now, SIGHUP));
    CHECK(!sigismember(&u->uc_sigmask, number));
    count++;
}

static void set(int number, void *handler, int flags) {
    struct sigaction a = {.sa_flags = flags};
    a.sa_handler = (void (*)(int))handler;
    if (flags & SA_SIGINFO) sigaddset(&a.sa_mask, SIGUSR2);
    CHECK(sigaction(number, &a, 0) == 0);
    struct sigaction back;
    CHECK(sigaction(number, 0, &back) == 0);
    CHECK((void *)back.sa_handler == handler && (back.sa_flags & ~0x04000000) == flags);
}

int main(void) {
    set(SIGUSR1, plain, 0);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
    CHECK(count == 100);

    count = 0;
    set(SIGUSR1, deferring, 0);
    raise(SIGUSR1);
    CHECK(deepest == 1 && count == 6);
    count = deepest = 0;
    set(SIGUSR1, deferring, SA_NODEFER);
    raise(SIGUSR1);
    CHECK(deepest == 6);

    count = 0;
    set(SIGUSR1, plain, SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction back;
    sigaction(SIGUSR1, 0, &back);
    CHECK(count == 1 && back.sa_handler == SIG_DFL);

    count = 0;
    set(SIGUSR1, informed, SA_SIGINFO);
    kill(getpid(), SIGUSR1);
    raise(SIGUSR1);
    sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 4711});
    CHECK(count == 3);

    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, old;
    CHECK(sigaltstack(&alternate, 0) == 0);
    CHECK(sigaltstack(0, &old) == 0 && old.ss_sp == stack && old.ss_size == sizeof stack && old.ss_flags == 0);
    set(SIGUSR1, informed, SA_SIGINFO | SA_ONSTACK);
    raise(SIGUSR1);
    CHECK(where > (unsigned long)stack && where < (unsigned long)stack + sizeof stack);
    set(SIGUSR1, informed, SA_SIGINFO);
    raise(SIGUSR1);
    CHECK(!(where > (unsigned long)stack && where < (unsigned long)stack + sizeof stack));
    alternate.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&alternate, 0) == 0);
    set(SIGUSR1, informed, SA_SIGINFO | SA_ONSTACK);
    raise(SIGUSR1);
    CHECK(!(where > (unsigned long)stack && where < (unsigned long)stack + sizeof stack));
    signal(SIGUSR1, SIG_IGN);
    raise(SIGUSR1);

    // A blocking read, interrupted or restarted; the byte comes from a child.
    for (int restart = 0; restart < 2; restart++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        count = 0;
        set(SIGALRM, plain, restart ? SA_RESTART : 0);
        pid_t child = fork();
        if (child == 0) {
            usleep(80000);
            CHECK(write(ends[1], "x", 1) == 1);
            _exit(0);
        }
        struct itimerval soon = {.it_value = {0, 20000}};
        setitimer(ITIMER_REAL, &soon, 0);
        char byte = 0;
        errno = 0;
        ssize_t got = read(ends[0], &byte, 1);
        if (restart) CHECK(got == 1 && byte == 'x');
        else CHECK(got == -1 && errno == EINTR);
        while (waitpid(child, 0, 0) < 0) CHECK(errno == EINTR);
        close(ends[0]), close(ends[1]);
    }

    set(SIGCHLD, plain, SA_NOCLDWAIT | SA_NOCLDSTOP);
    pid_t child = fork();
    if (child == 0) _exit(3);
    CHECK(waitpid(child, 0, 0) == -1 && errno == ECHILD);
    return succeed();
}
