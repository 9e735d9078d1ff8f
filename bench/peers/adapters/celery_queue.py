"""Celery with Redis as broker and for results."""

from __future__ import annotations

from celery import Celery

from bench.peers import paths
from bench.peers.bodies import BODIES

app = Celery("peers", broker=paths.address(), backend=paths.address())
_tasks = {name: app.task(name=name)(body) for name, body in BODIES.items()}


class Tasks:
    """The bodies as Celery's tasks."""

    def enqueue(self, body: str, what: str) -> object:
        """Submit one task."""
        return _tasks[body].apply_async((what,)).id


def connect() -> Tasks:
    """Return the way to enqueue."""
    return Tasks()
