/* SPDX-License-Identifier: MIT OR Apache-2.0

   Requests that a program makes to the profiler that runs it, for C (from C99) and C++.

   A request is a sequence of instructions without effect, which tallygraph and Valgrind recognise in any
   compiled program. Outside them it costs these few instructions and gives its default, so requests can
   stay in programs that are shipped. On other machines than x86-64, with compilers that do not know GNU
   assembly, and with TALLYGRAPH_NO_REQUESTS or NVALGRIND defined, they compile to their defaults.

   The names are TALLYGRAPH_...; with them come the names that programs use for Valgrind and Callgrind,
   unless a header of Valgrind's was included before this one or TALLYGRAPH_OWN_NAMES_ONLY is defined. */
#ifndef TALLYGRAPH_H
#define TALLYGRAPH_H

#include <stdarg.h>

/* Numbers of requests. Those of one tool carry two letters in their upper half. */
#define TALLYGRAPH_REQUEST_RUNNING 0x1001ul
#define TALLYGRAPH_REQUEST_DISCARD 0x1002ul
#define TALLYGRAPH_REQUEST_MONITOR 0x1202ul
#define TALLYGRAPH_REQUEST_PRINTF 0x1403ul
#define TALLYGRAPH_REQUEST_PRINTF_BACKTRACE 0x1404ul
#define TALLYGRAPH_REQUEST_CALLGRIND(n) (('C' * 0x1000000ul) + ('T' * 0x10000ul) + (n))

#if defined(__x86_64__) && !defined(__ILP32__) && (defined(__GNUC__) || defined(__clang__)) \
    && !defined(TALLYGRAPH_NO_REQUESTS) && !defined(NVALGRIND)
#define TALLYGRAPH_HAS_REQUESTS 1

/* Makes a request with up to five words; gives its answer, or `otherwise` where nobody listens. */
static inline __attribute__((always_inline, unused)) unsigned long
tallygraph_request(unsigned long otherwise, unsigned long number, unsigned long a, unsigned long b,
                   unsigned long c, unsigned long d, unsigned long e) {
    volatile unsigned long words[6] = {number, a, b, c, d, e};
    unsigned long answer = otherwise;
    /* rax holds the address of the words, rdx the default and then the answer. Four rotations of rdi
       by 128 bits in all leave it as it was. */
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(&words[0])
                     : "cc", "memory");
    return answer;
}
#else
#define TALLYGRAPH_HAS_REQUESTS 0
static inline unsigned long
tallygraph_request(unsigned long otherwise, unsigned long number, unsigned long a, unsigned long b,
                   unsigned long c, unsigned long d, unsigned long e) {
    (void)number, (void)a, (void)b, (void)c, (void)d, (void)e;
    return otherwise;
}
#endif

#if defined(__GNUC__) || defined(__clang__)
#define TALLYGRAPH_FORMAT_ __attribute__((format(printf, 1, 2), unused, noinline))
#else
#define TALLYGRAPH_FORMAT_
#endif

/* Prints to the profiler's log as printf does; gives the number of bytes, 0 where nobody listens. */
static int TALLYGRAPH_FORMAT_ TALLYGRAPH_PRINTF(const char *format, ...) {
    va_list list;
    unsigned long n;
    va_start(list, format);
    n = tallygraph_request(0, TALLYGRAPH_REQUEST_PRINTF, (unsigned long)format, (unsigned long)&list, 0, 0, 0);
    va_end(list);
    return (int)n;
}

/* The same, followed by the functions that are active. */
static int TALLYGRAPH_FORMAT_ TALLYGRAPH_PRINTF_BACKTRACE(const char *format, ...) {
    va_list list;
    unsigned long n;
    va_start(list, format);
    n = tallygraph_request(0, TALLYGRAPH_REQUEST_PRINTF_BACKTRACE, (unsigned long)format, (unsigned long)&list,
                           0, 0, 0);
    va_end(list);
    return (int)n;
}

#define TALLYGRAPH_CALLGRIND_(n, a) \
    ((void)tallygraph_request(0, TALLYGRAPH_REQUEST_CALLGRIND(n), (unsigned long)(a), 0, 0, 0, 0))

/* Not 0 when the program runs under tallygraph or Valgrind. */
#define TALLYGRAPH_RUNNING() ((unsigned)tallygraph_request(0, TALLYGRAPH_REQUEST_RUNNING, 0, 0, 0, 0, 0))
/* Code in this range has been rewritten. tallygraph notices that by itself. */
#define TALLYGRAPH_DISCARD_TRANSLATIONS(start, length) \
    ((void)tallygraph_request(0, TALLYGRAPH_REQUEST_DISCARD, (unsigned long)(start), \
                              (unsigned long)(length), 0, 0, 0))
/* Makes the profiler act on a command as a user would: "dump", "zero", "status", "instrumentation on".
   Gives 0 when it was understood. */
#define TALLYGRAPH_MONITOR_COMMAND(text) \
    ((int)tallygraph_request(0, TALLYGRAPH_REQUEST_MONITOR, (unsigned long)(text), 0, 0, 0, 0))

/* Writes what was counted since the last part as a part of its own. */
#define TALLYGRAPH_DUMP_STATS() TALLYGRAPH_CALLGRIND_(0, 0)
/* The same; the text names the part. */
#define TALLYGRAPH_DUMP_STATS_AT(text) TALLYGRAPH_CALLGRIND_(3, text)
/* Forgets what was counted since the last part. */
#define TALLYGRAPH_ZERO_STATS() TALLYGRAPH_CALLGRIND_(1, 0)
/* Switches the collection of costs on or off. */
#define TALLYGRAPH_TOGGLE_COLLECT() TALLYGRAPH_CALLGRIND_(2, 0)
/* Switches measurement on, at any depth of the stack. */
#define TALLYGRAPH_START_INSTRUMENTATION() TALLYGRAPH_CALLGRIND_(4, 0)
/* Switches measurement off. */
#define TALLYGRAPH_STOP_INSTRUMENTATION() TALLYGRAPH_CALLGRIND_(5, 0)
/* Skips an object from now on, as --obj-skip does: its costs go to who calls it. */
#define TALLYGRAPH_ADD_OBJ_SKIP(path) TALLYGRAPH_CALLGRIND_(6, path)
/* Adds a line `desc: TEXT` to the header of the next part. */
#define TALLYGRAPH_ADD_DESC(text) TALLYGRAPH_CALLGRIND_(7, text)

#if !defined(__VALGRIND_H) && !defined(TALLYGRAPH_OWN_NAMES_ONLY)
#define RUNNING_ON_VALGRIND TALLYGRAPH_RUNNING()
#define VALGRIND_PRINTF TALLYGRAPH_PRINTF
#define VALGRIND_PRINTF_BACKTRACE TALLYGRAPH_PRINTF_BACKTRACE
#define VALGRIND_DISCARD_TRANSLATIONS(start, length) TALLYGRAPH_DISCARD_TRANSLATIONS(start, length)
#define VALGRIND_MONITOR_COMMAND(text) TALLYGRAPH_MONITOR_COMMAND(text)
#define CALLGRIND_DUMP_STATS TALLYGRAPH_DUMP_STATS()
#define CALLGRIND_DUMP_STATS_AT(text) TALLYGRAPH_DUMP_STATS_AT(text)
#define CALLGRIND_ZERO_STATS TALLYGRAPH_ZERO_STATS()
#define CALLGRIND_TOGGLE_COLLECT TALLYGRAPH_TOGGLE_COLLECT()
#define CALLGRIND_START_INSTRUMENTATION TALLYGRAPH_START_INSTRUMENTATION()
#define CALLGRIND_STOP_INSTRUMENTATION TALLYGRAPH_STOP_INSTRUMENTATION()
#endif
#if !defined(CALLGRIND_ADD_OBJ_SKIP) && !defined(TALLYGRAPH_OWN_NAMES_ONLY)
#define CALLGRIND_ADD_OBJ_SKIP(path) TALLYGRAPH_ADD_OBJ_SKIP(path)
#define CALLGRIND_ADD_DESC(text) TALLYGRAPH_ADD_DESC(text)
#endif

#endif
