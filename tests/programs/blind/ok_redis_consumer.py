"""DIAGNOSIS none.progressing|none.idle (control): a worker with BLPOP (timeout 2 s) that gets ten
items a second from a producer process.
"""

import hashlib
import time

import redis
from _role import play, role
from _stage import ready, redis_port

r = redis.Redis(port=redis_port())
n = 0
if role():
    while True:
        r.rpush("jobs", str(n))
        n += 1
        time.sleep(0.1)
play("producer")
r.blpop("jobs", 5)
ready()
while True:
    item = r.blpop("jobs", 2)
    if item:
        hashlib.pbkdf2_hmac("sha1", item[1], b"s", 3000)
