// flags: -O2
// Virtual calls through three classes, containers, shared pointers, and exceptions through several frames.
//
// Ir: any
#include "check.h"
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual long area(long scale) const = 0;
};
struct Square : Shape {
    long side;
    explicit Square(long s) : side(s) {}
    APART long area(long scale) const override { return side * side * scale; }
};
struct Strip : Shape {
    long width, height;
    Strip(long w, long h) : width(w), height(h) {}
    APART long area(long scale) const override {
        if (scale > 90 && width % 7 == 0) throw std::range_error("too large: " + std::to_string(scale));
        return width * height * scale;
    }
};
struct Group : Shape {
    std::vector<std::shared_ptr<Shape>> members;
    APART long area(long scale) const override {
        long sum = 0;
        for (const auto &m : members) sum += m->area(scale);
        return sum;
    }
};
int main() {
    Group all;
    for (long i = 1; i < 40; i++) {
        if (i % 3 == 0) all.members.push_back(std::make_shared<Square>(i));
        else if (i % 3 == 1) all.members.push_back(std::make_shared<Strip>(i, i + 1));
        else {
            auto group = std::make_shared<Group>();
            group->members.push_back(std::make_shared<Square>(i));
            all.members.push_back(group);
        }
    }
    std::map<std::string, long> results;
    for (long scale = 0; scale < 100; scale++) {
        try {
            results["scale " + std::to_string(scale % 10)] += all.area(scale);
        } catch (const std::exception &e) {
            results[e.what()]++;
        }
    }
    for (const auto &[name, value] : results) printf("%s: %ld\n", name.c_str(), value);
    return succeed();
}
