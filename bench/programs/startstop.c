/* Nineteen twentieths of the work before measurement starts, the rest measured. */
#include <stdio.h>
#include <stdlib.h>
static void request(unsigned long number) {
    volatile unsigned long block[6] = {number, 0, 0, 0, 0, 0};
    unsigned long result = 0;
    __asm__ volatile("rol $3, %%rdi\n rol $13, %%rdi\n rol $61, %%rdi\n rol $51, %%rdi\n xchg %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(block)
                     : "memory", "cc");
}
static long table[1024];
__attribute__((noinline)) static long look(long x) { return table[x & 1023]; }
__attribute__((noinline)) static long work(long n, long x) {
    for (long i = 0; i < n; i++) x = x * 25214903917l + look(x >> 16);
    return x;
}
int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 200000000;
    for (int i = 0; i < 1024; i++) table[i] = i * 7919;
    long x = work(n / 20 * 19, 1);
    request(0x43540004);
    x = work(n / 20, x);
    request(0x43540005);
    printf("%ld\n", x);
    return 0;
}
