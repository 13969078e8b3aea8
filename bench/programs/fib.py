"""Start of the interpreter, recursion, dictionaries, strings, exceptions."""
import sys


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Odd(Exception):
    pass


def odd(n):
    if n % 2:
        raise Odd(n)
    return n


def main(n):
    total = fib(n)
    for i in range(n * 400):
        try:
            total += odd(i)
        except Odd as e:
            total -= e.args[0]
    words = {str(i % 997): i for i in range(n * 1000)}
    print(total, len(words), max(words))


main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
