"""DIAGNOSIS blocked.external: XREAD BLOCK 0 on a Redis stream to which nobody adds."""

import os

import redis
from _stage import ready, redis_port

r = redis.Redis(port=redis_port(), socket_timeout=None)
stream = f"events:{os.getpid()}"


def consume(last="$"):
    while True:
        for _, entries in r.xread({stream: last}, block=0):
            last = entries[-1][0]


r.ping()
ready()
consume()
