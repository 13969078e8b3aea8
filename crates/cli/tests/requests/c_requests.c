/* Every request of include/tallygraph.h, in C and in C++. */
#include "tallygraph.h"
#include <stdio.h>
#include <string.h>

#define APART __attribute__((noinline))

APART static void leaf(int n) {
    VALGRIND_PRINTF_BACKTRACE("in leaf %d\n", n);
    __asm__ volatile("");
}
APART static void middle(int n) {
    leaf(n);
    __asm__ volatile("");
}
APART static void before(void) { __asm__ volatile(""); }
APART static void during(void) { __asm__ volatile(""); }
APART static void after(void) { __asm__ volatile(""); }

int main(int argc, char **argv) {
    int running = RUNNING_ON_VALGRIND != 0, n;
    printf("running %d\n", running);
    n = VALGRIND_PRINTF("[%5d] [%-5d] [%05d] [%x] [%#x] [%lu] [%lld] [%c] [%s] [%10s] [%-6s] [%%] [%u] [%08x] [%5.2f]\n",
                        42, 42, 42, 255, 255, 123456789012ul, -5ll, 'x', "str", "right", "left", 4000000000u,
                        0xabcdu, 2.25);
    printf("printed %d\n", n);
    printf("printed %d\n", VALGRIND_PRINTF("no line end"));
    printf("printed %d\n", VALGRIND_PRINTF(" and the rest\nand a second line\n"));
    middle(3);
    printf("printed %d\n", VALGRIND_PRINTF_BACKTRACE("open"));
    printf("unknown %lu\n", tallygraph_request(77, 0x4d430000ul, 1, 2, 3, 4, 5));
    printf("unknown %lu\n", tallygraph_request(77, TALLYGRAPH_REQUEST_CALLGRIND(99), 1, 2, 3, 4, 5));
    VALGRIND_DISCARD_TRANSLATIONS(main, 16);

    if (argc > 1 && !strcmp(argv[1], "parts")) {
        before();
        CALLGRIND_ADD_DESC("for the first");
        CALLGRIND_ADD_DESC("two\nlines");
        CALLGRIND_DUMP_STATS_AT("first");
        during();
        CALLGRIND_DUMP_STATS;
        before();
        CALLGRIND_ZERO_STATS;
        CALLGRIND_TOGGLE_COLLECT;
        before();
        CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_STOP_INSTRUMENTATION;
        before();
        CALLGRIND_START_INSTRUMENTATION;
        after();
        CALLGRIND_ADD_OBJ_SKIP("/no/such/object");
        CALLGRIND_ADD_DESC("for the last");
    }
    fflush(stdout);
    return 0;
}
