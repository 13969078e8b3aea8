// Exceptions through frames with destructors, rethrown, out of constructors and of virtual functions: the graph
// has every call, and no return that looks like one.
//
// flags: -O1
// Ir: any
// call main attempt 300
// call attempt descend 300
// call descend descend 300
// call attempt after 300
// call descend virtually 300
// call virtually Throws::call(int) 300
// call Throws::call(int) construct 100
// never descend after
// never descend attempt
// never attempt main
#include "check.h"
#include <stdexcept>
#include <string>

#define APART_C extern "C" __attribute__((noinline, noclone))
static int destroyed, constructed;
struct Local {
    std::string text = "some text that is too long for the small buffer";
    ~Local() { destroyed++; }
};
struct Member {
    Member() { constructed++; }
    ~Member() { destroyed++; }
};
struct Failing {
    Member first;
    Failing() { throw std::logic_error("constructor"); }
};
APART_C void construct() { Failing f; }
struct Base {
    virtual int call(int n) = 0;
    virtual ~Base() = default;
};
struct Throws : Base {
    int call(int n) override {
        if (n % 3 == 0) throw std::runtime_error("runtime");
        if (n % 3 == 1) throw n;
        construct();
        return 0;
    }
};
static Base *object;
APART_C int virtually(int n) {
    Local local;
    return object->call(n) + 1;
}
APART_C int descend(int depth, int n) {
    Local local;
    if (depth == 0) return virtually(n) + 1;
    try {
        return descend(depth - 1, n) + 1;
    } catch (const std::logic_error &) {
        throw;
    }
}
APART_C void after() { BARRIER(); }
APART_C int attempt(int n) {
    int result = 0;
    try {
        result = descend(1, n);
    } catch (const std::logic_error &e) {
        result = 1;
    } catch (const std::runtime_error &e) {
        result = 2;
    } catch (int value) {
        result = value == n ? 3 : 4;
    }
    after();
    return result;
}
int main() {
    object = new Throws;
    for (int i = 0; i < 300; i++) CHECK(attempt(i) == (i % 3 == 0 ? 2 : i % 3 == 1 ? 3 : 1));
    CHECK(destroyed == 300 * 3 + 100 && constructed == 100);
    delete object;
    return succeed();
}
