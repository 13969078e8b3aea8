// flags: -O1
//
// Calls of many kinds, for comparisons of options: nested, direct and mutual recursion, tail calls, callbacks
// out of the C library, function pointers, several call sites of one function.
//
// Ir: any
#include "check.h"

static volatile int sink;
APART static int leaf(int n) {
    for (int i = 0; i < n % 5; i++) sink += i;
    return n + 1;
}
APART static int middle(int n) { return leaf(n) + leaf(n + 1); }
APART static int outer(int n) { return middle(n) + leaf(n) + middle(n * 2); }
APART static int down(int n) { return n ? down(n - 1) + leaf(n) : middle(3); }
APART static int ping(int n);
APART static int pong(int n) { return n > 0 ? ping(n - 2) + leaf(1) : outer(2); }
APART static int ping(int n) { return n > 0 ? pong(n + 1) + middle(n) : leaf(n); }
APART static int tail(int n) {
    sink += n;
    return middle(n);
}
APART static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return leaf(x) - leaf(y);
}
APART static int work(int round) {
    int numbers[40], sum = 0;
    int (*const functions[])(int) = {leaf, middle, outer, tail};
    for (int i = 0; i < 40; i++) numbers[i] = (i * 17 + round) % 40;
    qsort(numbers, 40, sizeof *numbers, compare);
    for (int i = 0; i < 40; i++) sum += functions[(i + round) & 3](numbers[i]);
    char *text = malloc(100 + round);
    snprintf(text, 100, "%d %s", sum, "sum");
    sum += strlen(text);
    free(text);
    return sum + down(round) + ping(round + 3);
}
int main(void) {
    int sum = outer(1) + tail(2);
    for (int round = 0; round < 3; round++) sum += work(round) + outer(round);
    CHECK(sum != sink);
    return succeed();
}
