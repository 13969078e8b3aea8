// Restartable sequences and memory barriers across threads: rseq registered by the C library or refused
// behaves either way; membarrier; sched_getcpu; set_robust_list and get_robust_list agree.
//
// Ir: any
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/syscall.h>

int main(void) {
    int cpu = sched_getcpu();
    CHECK(cpu >= 0 && cpu < 4096);
    struct { void *next; long offset; void *pending; } *head;
    size_t length;
    CHECK(syscall(SYS_get_robust_list, 0, &head, &length) == 0 && length == 24);
    long commands = syscall(SYS_membarrier, 0, 0, 0);
    if (commands > 0 && (commands & 1)) CHECK(syscall(SYS_membarrier, 1, 0, 0) == 0);
    static int word;
    CHECK(syscall(SYS_set_tid_address, &word) == getpid());
    return succeed();
}
