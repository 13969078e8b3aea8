// Stack switches in assembly, as coroutine libraries make them: registers are pushed, the stack pointer is
// exchanged, and a return leads into the other coroutine. Thousands of switches between three stacks.
//
// flags: -O1
// Ir: any
// call coroutine produce 3000
// call produce switch_stacks 3000
// never produce coroutine
// never main produce
// never switch_stacks produce
// never coroutine main
#include "check.h"

void switch_stacks(void **save, void *load);
__asm__(".text\n.globl switch_stacks\n.type switch_stacks, @function\nswitch_stacks:\n"
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size switch_stacks, . - switch_stacks");

static void *main_stack, *stacks[3];
static int current, sum;
APART static void produce(int n) {
    sum += n;
    switch_stacks(&stacks[current], main_stack);
    BARRIER();
}
APART static void coroutine(void) {
    for (int i = 0;; i++) produce(i);
}
int main(void) {
    static char memory[3][16384] __attribute__((aligned(16)));
    for (int i = 0; i < 3; i++) {
        void **top = (void **)(memory[i] + sizeof memory[i]) - 2;
        *--top = (void *)coroutine;
        stacks[i] = top - 6;
    }
    for (int i = 0; i < 3000; i++) {
        current = i % 3;
        switch_stacks(&main_stack, stacks[current]);
    }
    CHECK(sum == 3 * (999 * 1000 / 2));
    return succeed();
}
