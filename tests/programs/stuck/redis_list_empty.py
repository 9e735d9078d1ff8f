"""DIAGNOSIS blocked.external: the next entry of a Redis list is awaited without a limit."""

import redis
from _stage import application, ready, redis_port


def next_letter(server: redis.Redis) -> object:
    return server.brpop(["letters"], timeout=0)


with redis.Redis(port=redis_port(), client_name=application()) as server:
    server.delete("letters")
    ready()
    next_letter(server)
