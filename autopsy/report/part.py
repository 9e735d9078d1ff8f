"""What a report consists of, apart from how it looks as text or as a page.

Both forms are made from the same parts, so that they never disagree. Invariant: a part holds text
as it was collected, neither escaped nor cut to a width.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines as they are; `code` says that a program wrote them."""

    lines: tuple[str, ...]
    code: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below a head. Columns in `numbers` are set to the right; `left_out` rows are missing."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a stack; `change` is what became of it between two looks: new, moved or gone."""

    function: str
    place: str
    source: str = ""
    change: str = ""
    own: bool = False


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack, innermost call first, under the threads or tasks that have it.

    One that `page_only` shows is told in words already, or again.
    """

    title: str
    steps: tuple[Step, ...]
    note: str = ""
    page_only: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """Somebody who waits or holds, or what is waited for and held."""

    key: str
    kind: str
    title: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """`start` waits for `end`, or is held by it."""

    start: str
    end: str
    label: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Who waits for what and who has it, all joined; `cycle` are keys that wait for each other."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    cycle: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Run:
    """A time in which a thread kept one stack. Units: seconds before now, both positive."""

    since_s: float
    until_s: float
    stack: int


@dataclass(frozen=True, slots=True)
class Strips:
    """What each thread did over some minutes; `stacks` names those that runs point to."""

    span_s: float
    rows: tuple[tuple[str, tuple[Run, ...]], ...]
    stacks: tuple[str, ...]
    gaps: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A series over time: points of (seconds before now, value), oldest first."""

    title: str
    points: tuple[tuple[float, float], ...]
    lowest: str
    highest: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture and what it says in words; text shows the words alone."""

    picture: Graph | Strips | Chart
    words: tuple[str, ...]


Block = Lines | Table | Stack | Drawing


@dataclass(frozen=True, slots=True)
class Part:
    """A titled piece of the report; a folded one is of second interest."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    folded: bool = False
