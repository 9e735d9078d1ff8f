"""DIAGNOSIS blocked.external: it listens to a Redis channel on which nobody publishes."""

import redis
from _stage import application, ready, redis_port

with redis.Redis(port=redis_port(), client_name=application()) as server:
    channel = server.pubsub()
    channel.subscribe("prices")
    channel.get_message(timeout=5)
    ready()
    for message in channel.listen():
        print(message)
