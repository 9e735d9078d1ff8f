"""DIAGNOSIS blocked.external|none.idle: Redis pub/sub: listen() on a channel where nobody
publishes, in a thread; main joins.
"""

import os
import threading
import time

import redis
from _stage import ready, redis_port


def follow(channel):
    ps = redis.Redis(port=redis_port(), socket_timeout=None).pubsub(ignore_subscribe_messages=True)
    ps.subscribe(channel)
    for message in ps.listen():
        print(message)


t = threading.Thread(target=follow, args=(f"room:{os.getpid()}",), name="follow")
t.start()
time.sleep(0.4)
ready()
t.join()
