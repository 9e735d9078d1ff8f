"""DIAGNOSIS busy.python: next() over a one-line generator expression whose condition is never true;
Python code on the CPU for ever.
"""

import itertools

from _stage import ready


def first_root(a, b):
    return next(x for x in itertools.count(1) if x * x * a + b == x * (x * a))


ready()
print(first_root(3, 7))
