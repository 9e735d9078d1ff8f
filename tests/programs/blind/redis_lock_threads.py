"""DIAGNOSIS blocked.distributed_lock: redis-py's Lock in two pool threads; another process keeps
the lock and renews it; main waits for the futures.
"""

# ruff: noqa: E741

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from _role import play, role
from _stage import ready, redis_port

r = redis.Redis(port=redis_port())
if role():
    l = r.lock("reindex", timeout=5)
    l.acquire()
    print("held", flush=True)
    while True:
        time.sleep(1)
        l.reacquire()
p = play("owner", stdout=subprocess.PIPE, text=True)
p.stdout.readline()


def reindex(i):
    with r.lock("reindex", timeout=30, sleep=0.2):
        return i


with ThreadPoolExecutor(2) as pool:
    fs = [pool.submit(reindex, i) for i in range(2)]
    time.sleep(0.5)
    ready()
    [f.result() for f in fs]
