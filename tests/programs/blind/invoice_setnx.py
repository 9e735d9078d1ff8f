"""DIAGNOSIS blocked.distributed_lock|blocked.polling: hand-made Redis lock: SET NX every 100 ms on
a key whose owner died without a TTL.
"""

import os
import time
import uuid

import redis
from _stage import ready, redis_port

r = redis.Redis(port=redis_port())
KEY = f"lock:invoice:{os.getpid()}"
r.set(KEY, "worker-17")


class RedisMutex:
    def __init__(self, client, key):
        self.client, self.key, self.token = client, key, uuid.uuid4().hex

    def __enter__(self):
        while not self.client.set(self.key, self.token, nx=True):
            time.sleep(0.1)
        return self

    def __exit__(self, *exc):
        self.client.delete(self.key)


ready()
with RedisMutex(r, KEY):
    print("numbering invoices")
