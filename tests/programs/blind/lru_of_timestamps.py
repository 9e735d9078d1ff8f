"""DIAGNOSIS leak.memory_python: lru_cache(maxsize=None) keyed by a timestamp: 120 MB and 5 MB more
each second, for minutes.
"""

import functools
import time

from _stage import ready


@functools.cache
def rates(at):
    return {f"c{k}": [at + k, str(at) * 2] for k in range(40)}


i = 0
while i < 150000:
    rates(i / 7)
    i += 1
    if i == 10000:
        ready()
    if i > 10000 and i % 50 == 0:
        time.sleep(0.08)
time.sleep(1e6)
