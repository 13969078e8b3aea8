// What a program finds at its start: the auxiliary vector's types in order and their values, the name it
// was executed by, its path, arguments of any bytes, an aligned stack, the initial x87 and MXCSR words,
// its name, its limits.
//
// args: plain --option=1 -- ä €
// Ir: any
#define _GNU_SOURCE
#include "check.h"
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

extern char **environ;

int main(int argc, char **argv) {
    CHECK(argc == 6 && strcmp(argv[1], "plain") == 0 && strcmp(argv[4], "\xc3\xa4") == 0 && argv[6] == 0);
    for (int i = 0; i < argc; i++) CHECK(argv[i] + strlen(argv[i]) + 1 == (i + 1 < argc ? argv[i + 1] : environ[0]));
    char **end = environ;
    while (*end) end++;
    ElfW(auxv_t) *a = (void *)(end + 1);
    for (; a->a_type != AT_NULL; a++) {
        if (a->a_type == AT_SYSINFO_EHDR || a->a_type == AT_IGNORE) continue;  // the vdso may be hidden
        printf("%lu%s\n", a->a_type, a->a_type == AT_PAGESZ && a->a_un.a_val == 4096 ? " 4096" : "");
        if (a->a_type != AT_HWCAP) CHECK(getauxval(a->a_type) == a->a_un.a_val);  // the C library has its own view
    }
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    CHECK(n > 0);
    exe[n] = 0;
    CHECK(strcmp((char *)getauxval(AT_EXECFN), argv[0]) == 0 && strcmp(exe, argv[0]) == 0);
    const ElfW(Phdr) *headers = (void *)getauxval(AT_PHDR);
    CHECK(getauxval(AT_PHENT) == sizeof *headers && headers[0].p_type == PT_PHDR);
    CHECK(getauxval(AT_ENTRY) && getauxval(AT_BASE) && getauxval(AT_RANDOM) && getauxval(AT_SECURE) == 0);
    CHECK(strcmp((char *)getauxval(AT_PLATFORM), "x86_64") == 0);
    char name[17] = "";
    CHECK(prctl(PR_GET_NAME, name) == 0 && strncmp(name, strrchr(exe, '/') + 1, 15) == 0);
    FILE *f = fopen("/proc/self/cmdline", "r");
    char line[8192];
    size_t length = fread(line, 1, sizeof line, f);
    CHECK(strcmp(line, argv[0]) == 0 && length == (size_t)(environ[0] - argv[0]));
    fclose(f);
    unsigned int mxcsr;
    unsigned short word;
    __asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(mxcsr), "=m"(word));
    CHECK((mxcsr & ~0x3f) == 0x1f80 && word == 0x37f);
    return succeed();
}
