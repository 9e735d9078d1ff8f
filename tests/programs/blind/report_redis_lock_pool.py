"""DIAGNOSIS blocked.distributed_lock: two pool threads wait in redis-py Lock.acquire() for a lock
that another client holds and extends; main waits for the futures.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from _role import play, role
from _stage import ready, redis_port

NAME = f"lock:report:{sys.argv[2] if role() else os.getpid()}"
r = redis.Redis(port=redis_port())
if role() == "other":
    lock = r.lock(NAME, timeout=5)
    lock.acquire()
    while True:
        time.sleep(1)
        lock.reacquire()


def build(n):
    with r.lock(NAME, timeout=30, sleep=0.2):
        return n


play("other", str(os.getpid()))
while not r.exists(NAME):
    time.sleep(0.05)
with ThreadPoolExecutor(2, thread_name_prefix="report") as ex:
    fs = [ex.submit(build, n) for n in range(2)]
    time.sleep(0.3)
    ready()
    [f.result() for f in fs]
