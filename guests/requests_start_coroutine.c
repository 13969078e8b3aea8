// flags: -O1
// options: --instr-atstart=no
//
// Measurement starts on a coroutine's stack; the coroutine's callers are its own, main's stay main's.
//
// Ir: any
// call descend leaf 1
// call body leaf 1
// call main leaf 1
// call body descend 0
// never descend body
// never body main
// never main descend
// never main body
#define _GNU_SOURCE
#include "check.h"
#include "client_request.h"
#include <ucontext.h>

static ucontext_t main_context, other;
APART static void leaf(void) { BARRIER(); }
APART static void descend(void) {
    START();
    leaf();
    swapcontext(&other, &main_context);
    BARRIER();
}
APART static void body(void) {
    descend();
    leaf();
    BARRIER();
}
int main(void) {
    static char stack[65536];
    getcontext(&other);
    other.uc_stack.ss_sp = stack, other.uc_stack.ss_size = sizeof stack, other.uc_link = &main_context;
    makecontext(&other, body, 0);
    swapcontext(&main_context, &other);
    leaf();
    swapcontext(&main_context, &other);
    STOP();
    return succeed();
}
