// Coroutines by ucontext: two generators and main take turns in the middle of deep calls; each stack keeps
// its own callers.
//
// flags: -O1
// Ir: any
// call first_body descend_first 1
// call second_body descend_second 1
// call descend_first descend_first 4
// call descend_second descend_second 4
// never descend_first descend_second
// never descend_second descend_first
// never main descend_first
// never main descend_second
#define _GNU_SOURCE
#include "check.h"
#include <ucontext.h>

static ucontext_t main_context, first, second;
static volatile int turns;
APART static void step(ucontext_t *me, ucontext_t *other) {
    turns++;
    swapcontext(me, other);
    BARRIER();
}
APART static void descend_first(int n) {
    if (n) descend_first(n - 1);
    for (int i = 0; i < 10; i++) step(&first, &second);
    BARRIER();
}
APART static void descend_second(int n) {
    if (n) descend_second(n - 1);
    for (int i = 0; i < 10; i++) step(&second, i & 1 ? &first : &main_context);
    BARRIER();
}
APART static void first_body(void) {
    descend_first(4);
    BARRIER();
}
APART static void second_body(void) {
    descend_second(4);
    BARRIER();
}
int main(void) {
    static char one[65536], two[65536];
    getcontext(&first);
    first.uc_stack.ss_sp = one, first.uc_stack.ss_size = sizeof one, first.uc_link = &main_context;
    makecontext(&first, first_body, 0);
    getcontext(&second);
    second.uc_stack.ss_sp = two, second.uc_stack.ss_size = sizeof two, second.uc_link = &main_context;
    makecontext(&second, second_body, 0);
    for (int i = 0; turns < 80 && i < 1000; i++) swapcontext(&main_context, &first);
    CHECK(turns >= 80);
    return succeed();
}
