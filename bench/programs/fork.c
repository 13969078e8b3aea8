/* Processes that do nothing, one after another. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    for (int i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (child < 0 || waitpid(child, 0, 0) != child) return 1;
    }
    return 0;
}
