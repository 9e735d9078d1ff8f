"""DIAGNOSIS blocked.distributed_lock|blocked.polling: a home-made Redis lock: SET NX in a loop with
sleep(0.1); the key belongs to a dead owner.
"""

import time

import redis
from _stage import ready, redis_port

r = redis.Redis(port=redis_port())
r.set("lock:invoice", "host-17:991")


def acquire(name):
    while not r.set(name, "me", nx=True):
        time.sleep(0.1)


ready()
acquire("lock:invoice")
