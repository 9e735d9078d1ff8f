"""DIAGNOSIS busy.python: naive recursion that would take longer than the universe (fib(90)), in a
ThreadPoolExecutor.
"""

from concurrent.futures import ThreadPoolExecutor

from _stage import ready


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


with ThreadPoolExecutor(1) as pool:
    f = pool.submit(fib, 90)
    ready()
    f.result()
