// The address space belongs to the guest: brk grows and shrinks, fixed mappings low and high, hints are
// taken, MAP_FIXED_NOREPLACE, MAP_32BIT, a limit on it is felt, /proc/self/maps names the program and its
// heap and stack, and shows nothing that cannot be explained to a guest.
//
// flags: -O1
// Ir: any
// limit: a fixed mapping at 0x10000000 is refused
// uneven: the text of maps depends on the kernel
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

int main(void) {
    char *start = sbrk(0);
    CHECK(sbrk(1 << 20) == start && (start[0] = 1) && (start[(1 << 20) - 1] = 2));
    CHECK(sbrk(-(1 << 20)) == start + (1 << 20) && sbrk(0) == start);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *low = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(low == (char *)0x10000000 && (low[0] = 3) == 3);
    CHECK(mmap(low, 4096, PROT_READ, flags | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED && errno == EEXIST);
    char *high = mmap((void *)0x123456789000, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(high == (char *)0x123456789000);
    char *small = mmap(0, 4096, PROT_READ | PROT_WRITE, flags | MAP_32BIT, -1, 0);
    CHECK(small != MAP_FAILED && (unsigned long)small < 1ul << 32);
    char *page = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    page[4096] = 5;
    CHECK(mprotect(page, 4096, PROT_NONE) == 0 && munmap(page + 8192, 4096) == 0 && page[4096] == 5);
    char *moved = mremap(page + 4096, 4096, 64 * 4096, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && moved[0] == 5);
    unsigned char there[1];
    CHECK(mincore(moved, 4096, there) == 0 && (there[0] & 1));

    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int program = 0, stack = 0, heap = 0;
    char exe[256];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    CHECK(f && n > 0);
    exe[n] = 0;
    while (fgets(line, sizeof line, f)) {
        unsigned long from, to;
        char r, w, x;
        CHECK(sscanf(line, "%lx-%lx %c%c%c", &from, &to, &r, &w, &x) == 5);
        if (strstr(line, exe)) program++;
        if (strstr(line, "[stack]")) {
            stack++;
            CHECK(from < (unsigned long)line && (unsigned long)line < to && w == 'w');
        }
        if ((unsigned long)main >= from && (unsigned long)main < to) CHECK(strstr(line, exe) && x == 'x');
        if (strstr(line, "[heap]")) heap++;
        CHECK(!(from <= (unsigned long)low && (unsigned long)low < to) || to - from == 4096);
    }
    fclose(f);
    CHECK(program >= 4 && stack == 1 && heap <= 1);

    struct rlimit limit = {1ul << 31, 1ul << 31};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(malloc(3ul << 30) == 0 && errno == ENOMEM);
    void *some = malloc(1 << 20);
    CHECK(some);
    return succeed();
}
