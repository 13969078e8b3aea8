// flags: -O1
// options: --instr-atstart=no
//
// A forked child starts its own measurement; the parent measures only its own part.
//
// Ir: any
// call main leaf 2
// call main after 1
// absent in_child
// uneven: a child
#include "check.h"
#include "client_request.h"
#include <sys/wait.h>

APART static void leaf(void) { BARRIER(); }
APART static void after(void) { BARRIER(); }
APART static void in_child(void) {
    START();
    leaf();
    STOP();
    BARRIER();
}
int main(void) {
    pid_t child = fork();
    if (child == 0) {
        in_child();
        _exit(3);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    START();
    leaf();
    leaf();
    after();
    STOP();
    return succeed();
}
