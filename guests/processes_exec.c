// exec in every form: environment and arguments arrive untouched, failures return with their errno and
// the program goes on, descriptors with FD_CLOEXEC close and others stay, ignored signals and the mask are
// inherited, scripts run; from another thread; vfork, posix_spawn, system and popen.
//
// args: start
// Ir: any
// uneven: children
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;
static char self[4096];

static int wait_for(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}
/* What the executed copy of this program finds. */
static int second(int argc, char **argv) {
    CHECK(argc == 5 && strcmp(argv[2], "") == 0 && strcmp(argv[3], "a b\t\"'\\\n") == 0 && strcmp(argv[4], "\xff\x01") == 0);
    int count = 0;
    for (char **e = environ; *e; e++) count++;
    CHECK(count == 3 && strcmp(environ[0], "B=2") == 0 && strcmp(environ[1], "A=1=1") == 0 && strcmp(environ[2], "odd") == 0);
    CHECK(fcntl(100, F_GETFD) == 0 && fcntl(101, F_GETFD) == -1);
    sigset_t now;
    sigprocmask(SIG_BLOCK, 0, &now);
    CHECK(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
    struct sigaction a;
    CHECK(sigaction(SIGHUP, 0, &a) == 0 && a.sa_handler == SIG_IGN);
    CHECK(sigaction(SIGTERM, 0, &a) == 0 && a.sa_handler == SIG_DFL);
    return 42;
}
static void handler(int n) { (void)n; }
static char *words[] = {self, "second", "", "a b\t\"'\\\n", "\xff\x01", 0};
static char *variables[] = {"B=2", "A=1=1", "odd", 0};
static void *executes(void *a) {
    execve(self, words, variables);
    return a;
}
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "second") == 0) return second(argc, argv);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    int null = open("/dev/null", O_RDONLY);
    CHECK(dup2(null, 100) == 100 && dup3(null, 101, O_CLOEXEC) == 101);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, handler);
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, 0);

    // Failures return.
    char *none[] = {"none", 0};
    char no_program[] = "/tmp/tallygraph-guest-XXXXXX";
    int fd = mkstemp(no_program);
    CHECK(fd >= 0);
    errno = 0, CHECK(execve("/no/such/program", none, environ) == -1 && errno == ENOENT);
    errno = 0, CHECK(execve("/etc", none, environ) == -1 && errno == EACCES);
    errno = 0, CHECK(execve(no_program, none, environ) == -1 && errno == EACCES);
    CHECK(fchmod(fd, 0700) == 0 && write(fd, "garbage", 7) == 7 && close(fd) == 0);
    errno = 0, CHECK(execve(no_program, none, environ) == -1 && errno == ENOEXEC);
    CHECK((fd = open(no_program, O_WRONLY | O_TRUNC)) >= 0);
    static const char script[] = "#!/bin/sh -e\nexit $(($1 + $#))\n";
    CHECK(write(fd, script, sizeof script - 1) == sizeof script - 1 && close(fd) == 0);

    pid_t child = fork();
    if (child == 0) executes(0), _exit(1);
    CHECK(wait_for(child) == 42);
    child = vfork();
    if (child == 0) {
        execve(self, words, variables);
        _exit(1);
    }
    CHECK(wait_for(child) == 42);
    child = vfork();
    if (child == 0) _exit(13);
    CHECK(wait_for(child) == 13);
    child = vfork();
    if (child == 0) {
        execve("/no/such/program", none, environ);
        _exit(errno == ENOENT ? 14 : 1);
    }
    CHECK(wait_for(child) == 14);
    child = fork();
    if (child == 0) {
        pthread_t t;
        pthread_create(&t, 0, executes, 0);
        for (;;) pause();
    }
    CHECK(wait_for(child) == 42);
    child = fork();
    if (child == 0) {
        fd = open(self, O_PATH);
        fexecve(fd, words, variables);
        _exit(1);
    }
    CHECK(wait_for(child) == 42);
    CHECK(posix_spawn(&child, self, 0, 0, words, variables) == 0 && wait_for(child) == 42);
    CHECK(posix_spawnp(&child, "no-such-program-anywhere", 0, 0, none, environ) == ENOENT);
    char *script_words[] = {no_program, "30", "x", 0};
    CHECK(posix_spawn(&child, no_program, 0, 0, script_words, environ) == 0 && wait_for(child) == 32);
    CHECK(posix_spawnp(&child, "sh", 0, 0, (char *[]){"sh", "-c", "exit 9", 0}, environ) == 0 && wait_for(child) == 9);
    unlink(no_program);
    CHECK(WEXITSTATUS(system("exit 4")) == 4);
    FILE *p = popen("echo one; echo two | tr a-z A-Z", "r");
    char line[16];
    CHECK(p && fgets(line, 16, p) && strcmp(line, "one\n") == 0 && fgets(line, 16, p) && strcmp(line, "TWO\n") == 0);
    CHECK(pclose(p) == 0);
    return succeed();
}
