"""Dramatiq on Redis; results are kept, as the other queues do."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.peers import paths
from bench.peers.bodies import BODIES

broker = RedisBroker(url=paths.address())
broker.add_middleware(Results(backend=RedisBackend(url=paths.address()), store_results=True))
dramatiq.set_broker(broker)
_actors = {name: dramatiq.actor(body, actor_name=name) for name, body in BODIES.items()}


class Actors:
    """The bodies as Dramatiq's actors."""

    def enqueue(self, body: str, what: str) -> object:
        """Submit one task."""
        return _actors[body].send(what).message_id


def connect() -> Actors:
    """Return the way to enqueue."""
    return Actors()
