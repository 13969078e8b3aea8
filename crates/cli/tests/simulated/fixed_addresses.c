/* Works on memory at fixed addresses, with a stack of its own and without libc, so that every address is the
   same under any profiler: scattered and streaming accesses, accesses across lines, repeated moves, recursion and
   indirect calls. */
typedef unsigned long u64;
static u64 seed = 88172645463325252ull;
static unsigned char small[24 * 1024], large[3 * 1024 * 1024];
__attribute__((used)) u64 stack[4096];
__attribute__((noinline)) static u64 next(void) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed; }
__attribute__((noinline)) static u64 scattered(unsigned n) {
    u64 sum = 0;
    for (unsigned i = 0; i < n; i++) {
        u64 r = next();
        sum += *(u64 *)(large + r % (sizeof large - 8));
        small[r % sizeof small] += (unsigned char)sum;
        if (r & 64) *(unsigned *)(large + (r >> 20) % (sizeof large - 4)) = (unsigned)r;
    }
    return sum;
}
__attribute__((noinline)) static u64 streaming(unsigned n) {
    u64 sum = 0;
    for (unsigned k = 0; k < n; k++)
        for (unsigned i = 0; i + 8 < sizeof large; i += 24) sum += *(u64 *)(large + i);
    return sum;
}
typedef struct { u64 a, b, c, d; } four;
__attribute__((noinline)) static u64 copies(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        void *d = small + i * 7 % 16000, *s = small + i * 13 % 16000; u64 c = i % 200;
        __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(c) :: "memory");
        four f = { i, 2, 3, 4 }; *(four *)(small + i % 20000) = f;
    }
    return small[77];
}
__attribute__((noinline)) static u64 deep(unsigned n) { return n == 0 ? next() & 1 : deep(n - 1) + n; }
typedef u64 (*work)(unsigned);
static work const table[4] = { scattered, copies, deep, streaming };
__attribute__((used)) static void body(void) {
    static const unsigned amount[4] = { 20000, 3000, 300, 2 };
    u64 sum = 0;
    for (unsigned k = 0; k < 40; k++) { unsigned w = (next() >> 9) & 3; sum += ((work volatile const *)table)[w](w == 3 && k > 8 ? 0 : amount[w]); }
    __asm__ volatile("syscall" :: "a"(60), "D"(sum & 0) : "rcx", "r11", "memory");
}
__attribute__((naked)) void _start(void) { __asm__("lea stack+32000(%rip), %rsp\n and $-64,%rsp\n call body\n hlt"); }
