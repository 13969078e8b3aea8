// flags: -O1
// Alignment checking (the AC flag) switched on by the guest: calls, returns, indirect calls, generated code at
// an odd address, system calls and a signal handler go on as ever, and the flag stays on until it is
// switched off. Java's start-up finds out in this way what CPU it runs on.
//
// Ir: any
// valgrind: no, it does not keep the flag
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static unsigned long flags(unsigned long set, unsigned long clear) {
    unsigned long f;
    __asm__ volatile("sub $128, %%rsp\n\tpushfq\n\tor %1, (%%rsp)\n\tnot %2\n\tand %2, (%%rsp)\n\tpopfq\n\t"
                     "pushfq\n\tpop %0\n\tadd $128, %%rsp"
                     : "=&r"(f), "+r"(set), "+r"(clear)
                     :
                     : "cc", "memory");
    return f;
}
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
static volatile int handled;
static volatile unsigned long in_handler;
static void handler(int number) {
    handled += number == SIGUSR1;
    in_handler = flags(0, 0);
}
APART static long add(long a, long b) {
    BARRIER();
    return a + b;
}

#define AC 0x40000ul
int main(void) {
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    /* lea 1(%rdi), %rax, some that do nothing, ret */
    static const unsigned char bytes[] = {0x48, 0x8d, 0x47, 0x01, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3};
    memcpy(code + 3, bytes, sizeof bytes);
    long (*generated)(long) = (long (*)(long))(code + 3);
    long (*volatile indirect)(long, long) = add;
    signal(SIGUSR1, handler);
    long me = getpid(), thread = call(SYS_gettid, 0, 0, 0), sum = 0, wrong = 0;
    unsigned long on = flags(AC, 0);
    for (int i = 0; i < 1000; i++) {
        sum = add(sum, 1);
        sum = indirect(sum, 1);
        sum = generated(sum);
        wrong += call(SYS_getppid, 0, 0, 0) <= 0;
    }
    wrong += call(SYS_tgkill, me, thread, SIGUSR1) != 0;
    unsigned long still = flags(0, AC), off = flags(0, 0);
    CHECK((on & AC) && (still & AC) == 0 && (off & AC) == 0);
    CHECK(sum == 3000 && wrong == 0 && handled == 1 && (in_handler & AC));
    return succeed();
}
