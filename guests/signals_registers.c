// A timer at 1 kHz interrupts code that keeps all its state in registers and flags: general, vector and x87
// registers are the same afterwards although the handler changes all of them.
//
// Ir: any
// uneven: a timer interrupts
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/time.h>

static volatile int ticks;
static void tick(int number) {
    (void)number;
    ticks++;
    __asm__ volatile("fninit\n fldz\n fldpi\n pxor %%xmm0, %%xmm0\n pxor %%xmm5, %%xmm5\n pxor %%xmm15, %%xmm15\n std\n cld\n"
                     "mov $-1, %%r8\n mov $-1, %%r9\n mov $-1, %%r10\n mov $-1, %%r11"
                     ::: "r8", "r9", "r10", "r11", "xmm0", "xmm5", "xmm15");
}

int main(void) {
    struct sigaction a = {.sa_handler = tick, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &a, 0) == 0);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    CHECK(setitimer(ITIMER_REAL, &often, 0) == 0);
    long rounds = 0;
    while (ticks < 300) {
        unsigned long sum, check, wrong;
        __asm__ volatile(
            "fninit\n fld1\n fldpi\n"
            "mov $0x123456, %%r8\n mov $0x234567, %%r9\n mov $0x345678, %%r10\n"
            "movq %%r8, %%xmm0\n movq %%r9, %%xmm5\n movq %%r10, %%xmm15\n"
            "xor %%eax, %%eax\n xor %%edx, %%edx\n mov $20000, %%ecx\n"
            "mov $0xffffffff, %%r11d\n1: add %%r11, %%rax\n adc $0, %%edx\n" // flags live over a possible signal
            "test $1, %%cl\n jz 2f\n add %%r8, %%rax\n sub %%r8, %%rax\n"
            "2: dec %%ecx\n jnz 1b\n"
            "movq %%xmm0, %%r11\n xor %%r8, %%r11\n mov %%r11, %2\n"
            "movq %%xmm5, %%r11\n xor %%r9, %%r11\n or %%r11, %2\n"
            "movq %%xmm15, %%r11\n xor %%r10, %%r11\n or %%r11, %2\n"
            "xor $0x123456, %%r8\n or %%r8, %2\n xor $0x234567, %%r9\n or %%r9, %2\n"
            "fstp %%st(0)\n fistpl -4(%%rsp)\n movl -4(%%rsp), %%ecx\n dec %%ecx\n or %%rcx, %2\n"
            : "=&a"(sum), "=&d"(check), "=&r"(wrong)
            :
            : "rcx", "r8", "r9", "r10", "r11", "cc", "memory", "xmm0", "xmm5", "xmm15");
        CHECK(sum == 20000ul * 0xffffffff && check == 0 && wrong == 0);
        rounds++;
    }
    CHECK(rounds > 0);
    return succeed();
}
