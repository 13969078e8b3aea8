/* The requests that a program makes to the profiler that runs it: a sequence of instructions without
   effect, which a profiler recognises. Own words; no header of Valgrind's is needed. */
#ifndef CLIENT_REQUEST_H
#define CLIENT_REQUEST_H
#include <stdlib.h>

/* Makes a request; gives its result, or `otherwise` where nobody listens. */
static inline __attribute__((always_inline)) unsigned long
client_request(unsigned long otherwise, unsigned long number, unsigned long a, unsigned long b,
               unsigned long c, unsigned long d, unsigned long e) {
    volatile unsigned long block[6] = {number, a, b, c, d, e};
    unsigned long result = otherwise;
    __asm__ volatile("rol $3, %%rdi\n\trol $13, %%rdi\n\trol $61, %%rdi\n\trol $51, %%rdi\n\t"
                     "xchg %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(block)
                     : "memory", "cc");
    return result;
}

#define CALLGRIND_BASE (('C' << 24) | ('T' << 16))
#define DUMP() client_request(0, CALLGRIND_BASE + 0, 0, 0, 0, 0, 0)
#define ZERO() client_request(0, CALLGRIND_BASE + 1, 0, 0, 0, 0, 0)
#define TOGGLE_COLLECT() client_request(0, CALLGRIND_BASE + 2, 0, 0, 0, 0, 0)
#define DUMP_AT(text) client_request(0, CALLGRIND_BASE + 3, (unsigned long)(text), 0, 0, 0, 0)
/* Starts the measurement. With MEASURE_BY=zero in the environment what has been measured so far is
   forgotten instead: where everything is measured from the start, the outcome must be the same. */
#define START() client_request(0, CALLGRIND_BASE + (measures_by_zero() ? 1 : 4), 0, 0, 0, 0, 0)
#define STOP() client_request(0, CALLGRIND_BASE + 5, 0, 0, 0, 0, 0)
#define ADD_OBJ_SKIP(path) client_request(0, CALLGRIND_BASE + 6, (unsigned long)(path), 0, 0, 0, 0)
#define RUNNING_ON_VALGRIND() client_request(0, 0x1001, 0, 0, 0, 0, 0)

static inline int measures_by_zero(void) {
    const char *by = getenv("MEASURE_BY");
    return by && by[0] == 'z';
}

#endif
