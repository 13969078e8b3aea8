"""A recursion and some dictionary work: a second of an interpreter under a profiler."""


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


words = {}
for i in range(2000):
    words.setdefault(i % 97, []).append(str(i))

print(fibonacci(16), sum(len(v) for v in words.values()))
