"""DIAGNOSIS blocked.external|none.idle: BLPOP without a timeout on the list where a reply should
have come.
"""

import redis
from _stage import ready, redis_port

r = redis.Redis(port=redis_port())
r.rpush("requests", "1")
ready()
r.blpop("reply:1", 0)
