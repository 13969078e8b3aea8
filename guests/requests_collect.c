// flags: -O1
//
// ZERO forgets what was before, and an unknown request gives its default.
//
// Ir: any
// call main counted 3
// absent forgotten
#include "check.h"
#include "client_request.h"

APART static void forgotten(void) { BARRIER(); }
APART static void counted(void) { BARRIER(); }
int main(void) {
    forgotten();
    ZERO();
    counted();
    counted();
    counted();
    CHECK(client_request(4711, 0x12345678, 1, 2, 3, 4, 5) == 4711);
    return succeed();
}
