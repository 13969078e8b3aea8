// A guest that closes every descriptor, duplicates onto high ones, lists its own, and reaches the limit,
// finds what it would find without a profiler.
//
// Ir: any
// limit: the engine's descriptors show in /proc/self/fd
// uneven: the numbers of descriptors are looked at in a directory
#define _GNU_SOURCE
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int main(void) {
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    DIR *d = opendir("/proc/self/fd");
    CHECK(d);
    int count = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            int fd = atoi(e->d_name);
            CHECK(fd <= 2 || fd == dirfd(d));
            count++;
        }
    CHECK(count == 4);
    closedir(d);
    int out = fcntl(1, F_DUPFD, 50);
    CHECK(out == 50);
    CHECK(syscall(SYS_close_range, 3, 49, 0) == 0 && syscall(SYS_close_range, 51, ~0u, 0) == 0);
    CHECK(open("/dev/null", O_RDONLY) == 3 && close(3) == 0);
    for (int fd = 51; fd < 1100; fd++) close(fd);
    struct rlimit limit = {64, 64};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 64 && limit.rlim_max == 64);
    int opened = 0;
    while (open("/dev/null", O_RDONLY) >= 0) opened++;
    CHECK(errno == EMFILE && opened == 64 - 4);
    CHECK(syscall(SYS_close_range, 3, 49, 0) == 0);
    return succeed();
}
