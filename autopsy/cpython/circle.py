"""Circles of those who wait for each other: of threads, of tasks, across processes. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def circles(following: Mapping[T, Sequence[T]]) -> list[list[T]]:
    """Return circles of a graph, of which no two share a node.

    `following` are the nodes that each node leads to.
    """
    found: list[list[T]] = []
    told: set[T] = set()
    done: set[T] = set()
    for start in following:
        path: list[T] = []
        place: dict[T, int] = {}
        todo = [(start, iter(following.get(start, ())))] if start not in done else []
        while todo:
            node, after = todo[-1]
            if node not in place:
                place[node] = len(path)
                path.append(node)
            step = next(after, None)
            if step is None:
                todo.pop()
                done.add(node)
                path.pop()
                del place[node]
            elif step in place:
                circle = path[place[step] :]
                if told.isdisjoint(circle):
                    told.update(circle)
                    found.append(circle)
            elif step not in done:
                todo.append((step, iter(following.get(step, ()))))
    return found
