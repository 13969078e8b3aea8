// Callbacks from a library: qsort and bsearch call back into the program, through the library's object.
//
// flags: -O1
// Ir: any
// never main compare
#include "check.h"

/* Not the header's inline version. */
static void *(*volatile search)(const void *, const void *, size_t, size_t,
                                int (*)(const void *, const void *)) = bsearch;
static int comparisons;
APART static int inner(const int *a, const int *b) { return *a < *b ? -1 : *a > *b; }
APART static int compare(const void *a, const void *b) {
    comparisons++;
    return inner(a, b);
}
int main(void) {
    int numbers[500];
    for (int i = 0; i < 500; i++) numbers[i] = (i * 7919) % 500;
    qsort(numbers, 500, sizeof *numbers, compare);
    for (int i = 0; i < 500; i++) {
        CHECK(numbers[i] == i);
        CHECK(*(int *)search(&i, numbers, 500, sizeof i, compare) == i);
    }
    CHECK(comparisons > 4000);
    return succeed();
}
