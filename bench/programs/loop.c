/* One small loop: the cost of counting a block. */
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    unsigned long x = 88172645463325252ul, n = argc > 1 ? strtoul(argv[1], 0, 10) : 100000000;
    for (unsigned long i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    printf("%lu\n", x);
    return 0;
}
