"""Ours: on a SQLite file, on a PostgreSQL, or on that with a Redis as the bell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.peers import paths
from bench.peers.bodies import BODIES, Body
from supervisor import App
from supervisor.store import open_store
from supervisor.worker.context import TaskContext

app = App(store=paths.address(), queue=paths.bell())


def _registered(name: str, body: Body) -> Any:
    def run(_ctx: TaskContext, what: str) -> str:
        return body(what)

    return app.task(name=name)(run)


_tasks = {name: _registered(name, body) for name, body in BODIES.items()}
OPERATOR = "bench"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The bodies as our task types, and the verbs of an operator."""

    def enqueue(self, body: str, what: str, **options: Any) -> str:
        """Submit one task; the options are those of `submit`."""
        task_id: str = _tasks[body].submit(what=what, **options).task_id
        return task_id

    def cancel(self, task: str) -> str:
        """Ask a task to stop and return its state at that moment."""
        (answer,) = app.cancel(task, by=OPERATOR, reason="measured")
        return str(answer)

    def record(self, task: str) -> dict[str, Any]:
        """Return state, reason, attempts and who stepped in."""
        view = app.client.view(task)
        return {
            "state": str(view.state),
            "reason": view.reason,
            "quarantined": view.quarantined,
            "error": view.error,
            "attempts": [
                f"{a.outcome or 'RUNNING'} {a.reason or ''}".strip()
                for a in app.client.reader.attempts(task)
            ],
            "by": sorted({line.operator for line in app.history(task)} & {OPERATOR}),
        }


def connect() -> Tasks:
    """Make the store and return the way to enqueue and to step in."""
    open_store(paths.address(), create=True).close()
    return Tasks()
