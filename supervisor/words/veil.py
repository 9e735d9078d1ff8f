"""What of a task people are not shown: the values of secret params, wherever they turn up again.

Invariants: a param is secret when its type marks it or its name says so; its value is removed from
params, result, errors, notes and output alike, and so is what has the shape of a secret. From dedup
key and tags the values alone are removed: a key may well look like a secret and be none. What the
store keeps is untouched: the task itself needs it. Every surface for people asks here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from autopsy.redact import MARK, text
from autopsy.secret import Secrets, in_params
from supervisor.store import HistoryLine, Reader, Store, TaskView
from supervisor.store.marked import Marked, marked_params, params_of
from supervisor.store.view import AttemptView, CheckpointView, TaskLine

T = TypeVar("T", bound=TaskLine)


class Veil:
    """Hides what is secret of one task; made anew for each look at it."""

    __slots__ = ("_marked", "_secrets")

    def __init__(self, marked: Iterable[str], params_json: str) -> None:
        self._marked = frozenset(marked)
        self._secrets = Secrets(in_params(json.loads(params_json), self._marked))

    def task(self, task: TaskView) -> TaskView:
        """Return the task as people see it."""
        params = self._without_marked(json.loads(task.params_json))
        return replace(
            task,
            params_json=self._written(task.params_json, self._secrets.tree(params)),
            result_json=self.document(task.result_json),
            error=self.text(task.error),
            **self._labels(task),
        )

    def line(self, line: T) -> T:
        """Return the line of a list as people see it."""
        return replace(line, error=line.error and text(line.error), **self._labels(line))

    def attempts(self, attempts: Iterable[AttemptView]) -> list[AttemptView]:
        """Return the attempts of the task as people see them."""
        return [
            replace(
                one,
                error=self.text(one.error),
                traceback=self.text(one.traceback),
                detail=self.text(one.detail),
                result_json=self.document(one.result_json),
            )
            for one in attempts
        ]

    def history(self, trail: Iterable[HistoryLine]) -> list[HistoryLine]:
        """Return the trail of the task as people see it."""
        return [replace(line, note=self.text(line.note)) for line in trail]

    def checkpoint(self, saved: CheckpointView | None) -> CheckpointView | None:
        """Return the checkpoint of the task as people see it."""
        if saved is None:
            return None
        return replace(saved, value_json=self.document(saved.value_json) or "null")

    def text(self, value: str | None) -> str | None:
        """Return what the task said without what is secret of it."""
        return value and self._secrets.text(value)

    def document(self, value: str | None) -> str | None:
        """Return JSON text without what is secret of the task."""
        if value is None:
            return None
        return self._written(value, self._secrets.tree(json.loads(value)))

    def _labels(self, task: TaskLine) -> dict[str, Any]:
        """Return dedup key and tags without values of secret params."""
        known = self._secrets.known
        return {"dedup_key": task.dedup_key and known(task.dedup_key),
                "tags": tuple(known(tag) for tag in task.tags)}  # fmt: skip

    def _written(self, before: str, clean: Any) -> str:
        """Return JSON text; as it was where nothing is hidden in it."""
        if json.loads(before) == clean:
            return before
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":"))

    def _without_marked(self, value: Any) -> Any:
        """Hide marked params by their name: one may be too short to be found by its value."""
        if isinstance(value, dict):
            return {
                name: MARK if name in self._marked else self._without_marked(one)
                for name, one in value.items()
            }
        return [self._without_marked(one) for one in value] if isinstance(value, list) else value


def veil_of(reader: Reader, task: TaskView) -> Veil:
    """Return what hides the secrets of one task. Raises: StoreUnavailable."""
    return Veil(marked_params(reader.store).get(task.type, ()), task.params_json)


def veiled_lines(store: Store, lines: Sequence[T]) -> tuple[T, ...]:
    """Return tasks of a list without values of secret params in dedup keys and tags.

    From errors goes what looks like a secret: values of params the node removes before it writes
    an ending. Params are read for it, but for the longest: of their tasks all of it is hidden.
    """
    labeled = [line.task_id for line in lines if line.dedup_key or line.tags]
    params = params_of(store, labeled) if labeled else {}
    marked = marked_params(store) if labeled else {}
    return tuple(_veiled_line(line, params.get(line.task_id, "{}"), marked) for line in lines)


def _veiled_line(line: T, params_json: str | None, marked: Marked) -> T:
    if params_json is not None:
        return Veil(marked.get(line.type, ()), params_json).line(line)
    dedup_key = None if line.dedup_key is None else MARK
    return replace(Veil((), "{}").line(line), dedup_key=dedup_key, tags=(MARK,) * len(line.tags))


def veiled_text(value: str) -> str:
    """Return a text of any task without what looks like a secret."""
    return text(value)


def veiled_trail(trail: Iterable[HistoryLine]) -> list[HistoryLine]:
    """Return lines of the trail, of any tasks, without what looks like a secret in their notes."""
    return [replace(line, note=text(line.note)) if line.note else line for line in trail]
