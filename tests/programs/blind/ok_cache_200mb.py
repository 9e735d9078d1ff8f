"""DIAGNOSIS none.progressing (control): a 200 MB cache that does not grow: look-ups and
replacements in an OrderedDict, 50 a second.
"""

import collections
import hashlib
import random
import time

from _stage import ready

cache, rnd = collections.OrderedDict(), random.Random(3)


def get(k):
    if k in cache:
        cache.move_to_end(k)
        return cache[k]
    cache[k] = hashlib.sha256(str(k).encode()).digest() * 640
    if len(cache) > 10000:
        cache.popitem(last=False)
    return cache[k]


for k in range(10000):
    get(k)
ready()
while True:
    for _ in range(5):
        get(rnd.randrange(14000))
    time.sleep(0.02)
