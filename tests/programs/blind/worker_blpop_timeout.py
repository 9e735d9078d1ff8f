"""DIAGNOSIS none.idle (control): a healthy queue worker without work: BLPOP with a timeout of 1 s
in a loop.
"""

import os

import redis
from _stage import ready, redis_port

r = redis.Redis(port=redis_port())


def work_once(queue):
    item = r.blpop([queue], timeout=1)
    if item:
        print(item)
    return item


ready()
while True:
    work_once(f"q:{os.getpid()}")
