// flags: -O2 -static
// A static program: no loader, indirect functions resolved by itself.
//
// Ir: any
// call main work 50
#include "check.h"

APART static int work(int n) {
    char text[64];
    snprintf(text, sizeof text, "%d %s", n, "text");
    return (int)strlen(text) + atoi(text);
}
int main(void) {
    int sum = 0;
    for (int i = 0; i < 50; i++) sum += work(i);
    CHECK(sum == 1225 + 50 * 5 + 10 + 40 * 2);
    return succeed();
}
