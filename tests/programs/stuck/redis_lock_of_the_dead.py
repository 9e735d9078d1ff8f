"""DIAGNOSIS blocked.distributed_lock: a Redis lock without expiry whose worker is gone."""

import redis
from _stage import application, ready, redis_port

KEY = "lock:invoice-run"

with redis.Redis(port=redis_port(), client_name=application()) as server:
    server.set(KEY, "worker/task_of_yesterday")
    ready()
    with server.lock(KEY):
        print("running")
