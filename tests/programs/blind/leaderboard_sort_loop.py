"""DIAGNOSIS busy.native_gil|busy.python: a leader board is sorted again and again in a loop that
never ends; nearly all time is in list.sort with the GIL held.
"""

import random

from _stage import ready

rnd = random.Random(1)
scores = [(rnd.random(), i) for i in range(1_500_000)]


def rank(rows):
    rows.sort()
    rows[0], rows[-1] = rows[-1], rows[0]
    return rows[:10]


def rebuild():
    top = None
    while True:
        fresh = rank(scores[::2] + scores[1::2])
        if fresh == top and fresh is top:
            return
        top = fresh


ready()
rebuild()
