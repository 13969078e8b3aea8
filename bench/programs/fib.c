/* Recursion and nothing else: calls and returns. */
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 36;
    printf("%ld\n", fib(n));
    return 0;
}
