"""DIAGNOSIS none.progressing|busy.python (control): a pricing batch that uses one core fully and
goes on over its items, 20 ms or so each.
"""

import random

from _stage import ready


def paths(rnd, n):
    return [sum(rnd.gauss(0, 0.1) for _ in range(20)) for _ in range(n)]


def price(strike, seed):
    xs = paths(random.Random(seed), 400)
    return sum(max(0, 100 * (1 + x) - strike) for x in xs) / len(xs)


def batch():
    book, i = {}, 0
    while True:
        book[i % 500] = price(80 + i % 40, i)
        i += 1


ready()
batch()
