// Threads without a library: clone and clone3 with every tid word, futexes by hand, own stacks, exit of one
// thread by the raw call; a child by clone without CLONE_VM.
//
// flags: -no-pie
// Ir: any
// uneven: threads
#define _GNU_SOURCE
#include "check.h"
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

volatile int word; // known to assembly
static volatile int parent_tid, child_tid, value;
static int body(void *argument) {
    value = *(int *)argument;
    CHECK(syscall(SYS_gettid) != getpid());
    return 0;
}
static int other(void *argument) {
    CHECK(*(int *)argument == 5 && getpid() == (int)syscall(SYS_gettid));
    value = 99;
    return 6;
}
static void wait_for_end(volatile int *at, int tid) {
    while (*at == tid) syscall(SYS_futex, at, FUTEX_WAIT, tid, 0, 0, 0);
    CHECK(*at == 0);
}
int main(void) {
    char *stack = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    for (int i = 0; i < 200; i++) {
        child_tid = -1;
        int tid = clone(body, stack + (1 << 16), flags, &i, &parent_tid, 0, &child_tid);
        CHECK(tid > 0 && parent_tid == tid);
        while (child_tid == -1) sched_yield();
        wait_for_end(&child_tid, tid);
        CHECK(value == i);
    }
    for (int i = 0; i < 50; i++) {
        child_tid = -1;
        struct clone_args args = {.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                           CLONE_SYSVSEM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
                                  .stack = (unsigned long)stack,
                                  .stack_size = 1 << 16,
                                  .child_tid = (unsigned long)&child_tid};
        word = 0;
        long tid;
        __asm__ volatile("syscall\n test %%rax, %%rax\n jnz 1f\n"
                         "lock incl word(%%rip)\n mov $60, %%eax\n xor %%edi, %%edi\n syscall\n 1:"
                         : "=a"(tid)
                         : "a"(SYS_clone3), "D"(&args), "S"(sizeof args)
                         : "rcx", "r11", "memory", "cc");
        CHECK(tid > 0);
        while (child_tid == -1) sched_yield();
        wait_for_end(&child_tid, (int)tid);
        CHECK(word == 1);
    }
    value = 1;
    int five = 5, status;
    int child = clone(other, stack + (1 << 16), SIGCHLD, &five);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6 && value == 1);
    child = clone(other, stack + (1 << 16), CLONE_VM | CLONE_VFORK | SIGCHLD, &five);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6 && value == 99);
    return succeed();
}
