// Waiting for signals: sigsuspend, pause, sigwaitinfo, sigtimedwait, signalfd, ppoll; pending sets; blocked
// ones delivered in order when unblocked; real-time signals queued with their values.
//
// Ir: any
// limit: sigsuspend delivers one of several pending signals before it returns
// uneven: timers take part
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>

static volatile int count, order[16];
static void note(int number) { order[count++ & 15] = number; }
static void queued(int number, siginfo_t *info, void *context) {
    (void)context;
    order[count++ & 15] = number * 100 + info->si_value.sival_int;
}

static void soon(void) {
    struct itimerval t = {.it_value = {0, 5000}};
    setitimer(ITIMER_REAL, &t, 0);
}

int main(void) {
    sigset_t set, none, pending, old;
    sigemptyset(&none);
    signal(SIGALRM, note);
    signal(SIGUSR1, note);
    signal(SIGUSR2, note);

    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
    raise(SIGUSR2);
    raise(SIGUSR1);
    raise(SIGUSR1);
    CHECK(count == 0 && sigpending(&pending) == 0);
    CHECK(sigismember(&pending, SIGUSR1) && sigismember(&pending, SIGUSR2) && !sigismember(&pending, SIGALRM));
    errno = 0;
    CHECK(sigsuspend(&none) == -1 && errno == EINTR);
    CHECK(count == 2);  // each once
    CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGUSR1));

    for (int i = 0; i < 20; i++) {
        soon();
        count = 0;
        while (count == 0) sigsuspend(&none);
        CHECK(count == 1 && order[0] == SIGALRM);
    }
    siginfo_t info;
    for (int i = 0; i < 5; i++) {
        soon();
        count = 0;
        CHECK(sigwaitinfo(&set, &info) == SIGALRM && info.si_code == SI_KERNEL && count == 0);
    }
    struct timespec brief = {0, 2000000};
    errno = 0;
    CHECK(sigtimedwait(&set, &info, &brief) == -1 && errno == EAGAIN);
    union sigval seven = {.sival_int = 7};
    CHECK(sigqueue(getpid(), SIGUSR1, seven) == 0);
    CHECK(sigtimedwait(&set, &info, &brief) == SIGUSR1 && info.si_value.sival_int == 7);

    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    CHECK(fd >= 0);
    raise(SIGUSR2);
    struct signalfd_siginfo si;
    CHECK(read(fd, &si, sizeof si) == sizeof si && si.ssi_signo == SIGUSR2 && si.ssi_pid == (unsigned)getpid());
    soon();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK(poll(&p, 1, 5000) == 1 && read(fd, &si, sizeof si) == sizeof si && si.ssi_signo == SIGALRM);
    soon();
    count = 0;
    errno = 0;
    CHECK(ppoll(0, 0, 0, &none) == -1 && errno == EINTR && count == 1);

    // Real-time signals queue: lowest number first, each as often as sent, in order.
    struct sigaction rt = {.sa_sigaction = queued, .sa_flags = SA_SIGINFO};
    sigfillset(&rt.sa_mask);
    sigset_t two;
    sigemptyset(&two);
    sigaddset(&two, SIGRTMIN + 1);
    sigaddset(&two, SIGRTMIN + 2);
    CHECK(sigprocmask(SIG_BLOCK, &two, 0) == 0);
    sigaction(SIGRTMIN + 1, &rt, 0);
    sigaction(SIGRTMIN + 2, &rt, 0);
    for (int i = 1; i <= 3; i++) {
        sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i});
        sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i});
    }
    count = 0;
    CHECK(sigprocmask(SIG_UNBLOCK, &two, 0) == 0);
    CHECK(count == 6);
    for (int i = 0; i < 6; i++)
        CHECK(order[i] == (i < 3 ? (SIGRTMIN + 1) * 100 + i + 1 : (SIGRTMIN + 2) * 100 + i - 2));

    CHECK(sigprocmask(SIG_SETMASK, &old, 0) == 0);
    count = 0;
    soon();
    while (count == 0) pause();
    return succeed();
}
