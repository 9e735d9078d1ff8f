"""DIAGNOSIS blocked.sleep: nested retry decorators with exponential back-off: the inner one has
reached a delay of hours.
"""

import functools
import time

from _stage import ready


def retry(attempts, base):
    def deco(fn):
        @functools.wraps(fn)
        def wrapper(*a, **kw):
            for n in range(attempts):
                try:
                    return fn(*a, **kw)
                except ConnectionError:
                    delay = base * 1000**n
                    if delay > 10:
                        ready()
                    time.sleep(delay)
            raise ConnectionError("gave up")

        return wrapper

    return deco


@retry(3, 0.1)
@retry(5, 0.02)
def upload(batch):
    raise ConnectionError("503")


upload([1, 2, 3])
