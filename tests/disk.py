"""A node whose store is on a file system of the test's own, which can be made to misbehave."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from harness import NodeUnderTest, Start


class Mounted(Protocol):
    """A file system that is mounted at `place`."""

    place: Path

    def unmount(self) -> None: ...


M = TypeVar("M", bound=Mounted)


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextmanager
def nodes_on(
    mount: Callable[[Path], M], start_node: Start
) -> Iterator[Callable[[], tuple[NodeUnderTest, M]]]:
    """Give what starts a node on such a disk; each is unmounted after its node is closed."""
    made: list[tuple[NodeUnderTest, M]] = []

    def start() -> tuple[NodeUnderTest, M]:
        node = start_node(run=False, workers=4)
        disk = mount(node.root / "disk")
        made.append((node, disk))
        node.move_store(disk.place / "tasks.db")
        node.start()
        return node, disk

    yield start
    for node, disk in made:
        node.close()
        disk.unmount()
