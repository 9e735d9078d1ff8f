"""Procrastinate on PostgreSQL."""

from __future__ import annotations

import procrastinate

from bench.peers import paths
from bench.peers.bodies import BODIES

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=paths.address()))
_tasks = {name: app.task(name=name)(body) for name, body in BODIES.items()}


class Tasks:
    """The bodies as Procrastinate's tasks."""

    def enqueue(self, body: str, what: str) -> object:
        """Submit one task."""
        return _tasks[body].defer(what=what)


def connect() -> Tasks:
    """Make the tables and return the way to enqueue."""
    app.open()
    app.schema_manager.apply_schema()
    return Tasks()
