"""Huey on Redis, or on a SQLite file with its defaults: write-ahead log, full flush per commit."""

from __future__ import annotations

from huey import RedisHuey, SqliteHuey

from bench.peers import paths
from bench.peers.bodies import BODIES


def _queue() -> RedisHuey | SqliteHuey:
    if paths.address():
        return RedisHuey("peers", url=paths.address())
    return SqliteHuey("peers", filename=str(paths.folder() / "huey.db"))


queue = _queue()
_tasks = {name: queue.task(name=name)(body) for name, body in BODIES.items()}


class Tasks:
    """The bodies as Huey's tasks."""

    def enqueue(self, body: str, what: str) -> object:
        """Submit one task."""
        return _tasks[body](what).id


def connect() -> Tasks:
    """Return the way to enqueue."""
    return Tasks()
