// Names of many kinds, for the demangler's test. Without arguments: raw names come in, one a line, and
// leave as the C++ library demangles them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#define KEEP __attribute__((noinline, used))

namespace outer {
inline namespace v1 {
struct Plain {
    KEEP Plain() {}
    KEEP explicit Plain(int) {}
    KEEP virtual ~Plain() {}
    KEEP operator bool() const { return true; }
    KEEP operator const char *() volatile { return ""; }
    template <class T> KEEP operator std::vector<T>() const { return {}; }
    KEEP int operator()(int, char) & { return 1; }
    KEEP int operator[](long) && { return 2; }
    KEEP Plain &operator=(const Plain &) { return *this; }
    KEEP bool operator<(const Plain &) const { return false; }
    KEEP Plain operator->*(int) { return *this; }
    void *operator new(size_t n) { return malloc(n); }
    void operator delete[](void *p) { free(p); }
    enum Kind { A, B };
    template <Kind K, bool Y, char C, unsigned long long N> KEEP static void values() {}
};
template <class... Ts> struct Packed {
    template <class... Us> KEEP static int both(std::tuple<Ts...> *, Us &&...) { return sizeof...(Us); }
    template <template <class...> class C, class U> KEEP static C<U, Ts...> *in(U) { return nullptr; }
};
} // namespace v1
} // namespace outer

namespace {
struct Hidden {
    KEEP void member(Hidden *) const volatile {}
};
KEEP void helper(Hidden &h) { h.member(&h); }
} // namespace

template <unsigned N, class T> KEEP void array(T (&)[N], const T (*)[2], T *const *) {}
template <class T> KEEP auto sum(T a, T b) -> decltype(a + b * 2) { return a + b * 2; }
template <class T> KEEP typename std::enable_if<(sizeof(T) > 2), T>::type big(T t) { return t; }
template <class F> KEEP auto apply(F f) -> decltype(f(1)) { return f(1); }
template <class T> KEEP T (*returns_function(T t, void (*)(T, ...)))(int, T &&) { return nullptr; }
template <class T, int T::*M> KEEP int through(T &t) { return t.*M; }
template <int (*F)(int)> KEEP int call() { return F(3); }
struct Point { int x, y; };
KEEP int twice(int x) { return 2 * x; }
KEEP int Tags(std::string s, std::ostream *o, std::function<void(std::string &&)> f) { return s.size(); }
KEEP int literals(long double, __int128, char16_t, char32_t, wchar_t, std::nullptr_t, signed char, bool) { return 0; }
KEEP long operator""_km(unsigned long long n) { return n; }
KEEP int (Point::*member_of(int (Point::*p)(char) const))(char) { return nullptr; }
KEEP void noexceptional(void (*)() noexcept, int &&, const int *__restrict) {}
template <class T> KEEP void vectors(T) {}
typedef float Four __attribute__((vector_size(16)));

template <class T> KEEP T plain_caller(T t) { return t; }

KEEP int lambdas(int n) {
    static int local = twice(n);
    auto plain = [&](int x, const Point *) KEEP { return x + n + local; };
    auto generic = [](auto a, auto &&...rest) KEEP { return sizeof(a) + sizeof...(rest); };
    struct Inner {
        KEEP int run(std::initializer_list<int> l) { return l.size(); }
    } inner;
    return plain(1, nullptr) + generic(n, 1, 'c') + apply(plain_caller<int>) + inner.run({1, 2});
}

int main(int argc, char **) {
    static char line[1 << 20];
    if (argc > 1) {
        outer::Plain p(1);
        int two[2][2] = {};
        (void)bool(p), (void)(const char *)p, (void)p.operator std::vector<int>();
        p(1, 'c'), outer::Plain()[1], p < p, p->*1, p = p;
        outer::Plain::values<outer::Plain::B, true, 'x', 7>();
        outer::Packed<int, char *>::both((std::tuple<int, char *> *)nullptr, 1, p, two);
        outer::Packed<>::both((std::tuple<> *)nullptr);
        outer::Packed<std::allocator<int>>::in<std::vector>(1);
        Hidden h;
        helper(h);
        array(two[0], two, (int *const *)nullptr);
        sum(1L, 2L), sum(1.0, 2.0), big(1L), call<twice>(), apply(twice);
        returns_function<long>(1, nullptr);
        Point q = {1, 2};
        through<Point, &Point::y>(q);
        Tags("", nullptr, nullptr);
        literals(1, 1, 1, 1, 1, nullptr, 1, 1);
        (void)3_km;
        member_of(nullptr);
        noexceptional(nullptr, 1, nullptr);
        vectors(Four{}), vectors(&twice), vectors(&Point::x), vectors(std::make_pair('a', 1u));
        vectors([](Point) {}), vectors(std::unique_ptr<const Point[]>());
        return lambdas(argc);
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        int status;
        char *text = abi::__cxa_demangle(line, nullptr, nullptr, &status);
        puts(status == 0 ? text : line);
        free(text);
    }
}
