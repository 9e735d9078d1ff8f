"""DIAGNOSIS none.progressing|none.idle (control): a healthy scheduler: every 0.2 s it does a few
milliseconds of different work.
"""

import heapq
import time

from _stage import ready


def compact():
    sorted(range(20_000), key=lambda x: -x)


def rotate():
    "".join(chr(65 + i % 26) for i in range(20_000))


def report():
    sum(i * i for i in range(30_000))


due = [(time.monotonic() + 0.2 * i, i, f) for i, f in enumerate((compact, rotate, report))]
heapq.heapify(due)
seq = 3
ready()
while True:
    at, _, job = heapq.heappop(due)
    time.sleep(max(0.0, at - time.monotonic()))
    job()
    heapq.heappush(due, (at + 0.6, seq, job))
    seq += 1
