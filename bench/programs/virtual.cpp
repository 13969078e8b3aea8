// Virtual calls with targets that change from call to call: indirect branches.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
struct Node {
    virtual long value(long x) const = 0;
    virtual ~Node() = default;
};
struct Add : Node {
    long n;
    explicit Add(long n) : n(n) {}
    long value(long x) const override { return x + n; }
};
struct Mix : Node {
    long n;
    explicit Mix(long n) : n(n) {}
    long value(long x) const override { return x ^ (x >> n); }
};
struct Twice : Node {
    const Node &inner;
    explicit Twice(const Node &inner) : inner(inner) {}
    long value(long x) const override { return inner.value(inner.value(x)); }
};
int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1000000, x = 1;
    std::vector<std::unique_ptr<Node>> nodes;
    for (long i = 0; i < 12; i++) {
        if (i % 3 == 0) nodes.push_back(std::make_unique<Add>(i));
        else if (i % 3 == 1) nodes.push_back(std::make_unique<Mix>(i));
        else nodes.push_back(std::make_unique<Twice>(*nodes[i - 1]));
    }
    for (long i = 0; i < rounds; i++)
        for (const auto &node : nodes) x = node->value(x);
    std::printf("%ld\n", x);
}
