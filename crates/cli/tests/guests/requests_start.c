/* Measurement starts three frames deep and ends in main. The requests are written out, so that no
   header is needed. */
static inline __attribute__((always_inline)) unsigned long request(unsigned long number) {
    volatile unsigned long block[6] = {number, 0, 0, 0, 0, 0};
    unsigned long result = 0;
    __asm__ volatile("rol $3, %%rdi; rol $13, %%rdi; rol $61, %%rdi; rol $51, %%rdi; xchg %%rbx, %%rbx"
                     : "+d"(result) : "a"(block) : "memory", "cc");
    return result;
}
#define START 0x43540004ul
#define STOP 0x43540005ul

__attribute__((noinline)) int leaf(int n) {
    int s = 0;
    for (int i = 0; i < n; i++) { s += i * i; __asm__ volatile("" : "+r"(s)); }
    return s;
}
__attribute__((noinline)) void inner(void) { request(START); leaf(10); __asm__(""); }
__attribute__((noinline)) void mid(void) { inner(); leaf(20); __asm__(""); }
__attribute__((noinline)) void outer(void) { mid(); __asm__(""); }
int main(void) {
    leaf(1000);
    outer();
    leaf(100);
    request(STOP);
    leaf(5000);
    return 0;
}
