"""The two ends of the doorbell: what rings and what hears, whichever kind carries the sound.

The row in the store is the truth. A ring that is lost costs a look at the table a second later, a
doubled one a claim that is refused; so ringing never fails, and what was heard is never owed.
Clients and the relay ring, a node listens; both are made by `open_bell` and `open_listener`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from supervisor.model.record import Due

Kind = Literal["due", "cancel"]

#: The priority that stands for all of a queue where levels are paused.
ANY_PRIORITY = -1


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard since the last look: kinds of rings, and ids of tasks that are likely due."""

    kinds: frozenset[str] = frozenset()
    tips: tuple[str, ...] = ()


class Bell(Protocol):
    """Rings at the nodes of one store. Safe to share between threads."""

    def ring(self, kind: Kind, dues: Sequence[Due] = ()) -> None:
        """Say that something is due, and what, or that a stop mark was set.

        `dues` are tasks that are due now. Never raises and never waits for a server: a doorbell
        that fails is left alone for a while, the nodes find the rows by looking.
        """

    def close(self) -> None:
        """Hand over what was rung a moment ago, for half a second at most, and hang up."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(self, *_: object) -> None:
        """Close."""


class Listener(Protocol):
    """Hears the rings for one store. Used by one thread, the loop of a node."""

    #: Whether ids of due tasks are heard, or only that there are some.
    carries_ids: bool

    @property
    def away(self) -> str:
        """Say why nothing can be heard now; empty when all is well."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when something was heard or `away` changed."""

    def heard(self) -> Heard:
        """Take all that has come in; never waits."""

    def want(self, places: int) -> None:
        """Let at most so many more ids come in; those that wait to be taken by `heard` count."""

    def serve(self, queues: tuple[str, ...] | None, types: frozenset[str]) -> None:
        """Hear only of these queues (None: all) and these types of tasks."""

    def avoid(self, paused: frozenset[tuple[str, int]]) -> None:
        """Leave paused (queue, priority) alone, ANY_PRIORITY for all of a queue."""

    def close(self) -> None:
        """Stop listening; ids that nobody took are given back."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(self, *_: object) -> None:
        """Close."""
