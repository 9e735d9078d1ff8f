"""DIAGNOSIS leak.memory_python: lru_cache(maxsize=None) keyed by a timestamp keeps every rendered
page (strings); grows without end.
"""

import functools
import time

from _stage import ready


@functools.cache
def render(user, stamp):
    return "".join(f"<td>{user}-{stamp}-{i}</td>" for i in range(120))


n, told = 0, False
while True:
    render(n % 97, n)
    n += 1
    if n == 150_000:
        ready()
    if n > 150_000 and n % 200 == 0:
        time.sleep(0.03)
    if n > 600_000:
        time.sleep(1e6)
