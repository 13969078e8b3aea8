// flags: -O1
// options: --instr-atstart=no --obj-skip=libc.so.6
//
// Measurement starts in a callback of qsort, with the library skipped: nothing of the library appears, and
// the callbacks that follow are calls of main.
//
// Ir: any
// call compare leaf 1
// absent qsort
// absent msort_with_tmp.part.0
// never compare main
// never leaf compare
#include "check.h"
#include "client_request.h"

static int count;
APART static void leaf(void) { BARRIER(); }
APART static int compare(const void *a, const void *b) {
    if (count++ == 20) {
        START();
        leaf();
    }
    return *(const int *)a - *(const int *)b;
}
int main(void) {
    int numbers[100];
    for (int i = 0; i < 100; i++) numbers[i] = (i * 37) % 100;
    qsort(numbers, 100, sizeof *numbers, compare);
    STOP();
    for (int i = 0; i < 100; i++) CHECK(numbers[i] == i);
    return succeed();
}
