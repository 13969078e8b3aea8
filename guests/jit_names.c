// Generated code with names: a perf map that is followed while it grows, code that is replaced and named
// again, code without a name, and the moves of a jitdump. Both files are gone before the program ends, so
// what is shown was read while it ran. Each piece is `mov $V, %eax; ret`.
//
// Ir: any
// call main jit_first 300
// call main jit_second 200
// call main jit_third 100
// call main jit_dumped 150
// self jit_first 600
// self jit_second 400
// self jit_third 200
// self jit_dumped 300
// absent jit_never
// valgrind: no, it knows no names of generated code
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>

typedef int (*function)(void);

static unsigned char *put(unsigned char *at, int value) {
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
    return at;
}

/* In `main` itself, so that the calls are its own. */
#define GIVES(times, at, value)                                                                                \
    for (int j = 0; j < times; j++) CHECK(((function)(at))() == value)

static FILE *map;

static void name(unsigned char *at, int size, const char *text) {
    fprintf(map, "%lx %x %s\n", (unsigned long)at, size, text);
    fflush(map);
}

static int dump;

static void record(uint32_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d, const char *text) {
    struct {
        uint32_t kind, size;
        uint64_t time;
        uint32_t pid, tid;
        uint64_t words[4];
    } head = {kind, sizeof head, 0, getpid(), getpid(), {a, b, c, d}};
    size_t extra = text ? strlen(text) + 1 : 8;
    head.size += extra;
    CHECK(write(dump, &head, sizeof head) == sizeof head);
    CHECK(write(dump, text ? text : "\1\0\0\0\0\0\0", extra) == (ssize_t)extra);
}

int main(void) {
    char path[64], dumped[64];
    unsigned char *p = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    /* No name at all. */
    put(p + 4096, 9);
    GIVES(70, p + 4096, 9);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    CHECK((map = fopen(path, "w")) != 0);
    name(put(p, 1), 16, "jit_first");
    name(put(p + 16, 2), 16, "jit_second");
    name(p + 64, 16, "jit_never");
    GIVES(300, p, 1);
    GIVES(200, p + 16, 2);
    /* Other code at the same place. */
    name(put(p, 3), 16, "jit_third");
    GIVES(100, p, 3);
    fclose(map);
    unlink(path);

    snprintf(dumped, sizeof dumped, "/tmp/jit-%d.dump", getpid());
    CHECK((dump = open(dumped, O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0);
    CHECK(mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) != MAP_FAILED);
    uint32_t header[10] = {0x4a695444, 1, 40, 62, 0, getpid()};
    CHECK(write(dump, header, sizeof header) == sizeof header);
    /* pid, tid; address, address, size, index, name */
    put(p + 128, 4);
    record(0, 0, (uint64_t)(p + 128), 16, 1, "jit_dumped");
    GIVES(50, p + 128, 4);
    /* old address, new address, size, index */
    memcpy(p + 256, p + 128, 16);
    record(1, 0, (uint64_t)(p + 128), (uint64_t)(p + 256), 16, 0);
    GIVES(100, p + 256, 4);
    close(dump);
    unlink(dumped);
    puts("EXIT-SUCCESS");
    return 0;
}
