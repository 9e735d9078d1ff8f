"""What one attempt says of its work: counts, error codes, steps and calls of other services.

Secret kept here: how it is gathered without a lock. Each thread adds to a shelf of its own, so a
million counts cost no message and an interrupt can leave nothing held; whoever asks gets the totals
so far. Nothing that a body hands in can break its task: a bad name is told once, in its log.
"""

from __future__ import annotations

import itertools
import math
from _thread import get_ident
from bisect import bisect_left
from collections.abc import Callable
from types import TracebackType

from supervisor.clock import mono_ns
from supervisor.errors import Interruption, SoftTimeout
from supervisor.model.label import KINDS, Words, label_fault, plain_code, plain_label
from supervisor.model.spec import shorten
from supervisor.telemetry.catalog_task import CALL_BUCKETS, STEP_BUCKETS
from supervisor.telemetry.metric import OTHER
from supervisor.worker import wire

NS_PER_S = 1_000_000_000
#: Names of one kind in one attempt, beside those that its type declares; the node keeps fewer.
NAMES_MOST = 50
#: One count is no more: sums stay exact whole numbers.
COUNT_MOST = 2**53
#: Threads with a shelf of their own (numbers of ended ones are used again). The others share one,
#: where a count may be lost if two of them meet at it.
SHELVES_MOST = 256
_SHARED = -1


class _Times:
    """Durations by bucket; the last is for those above all edges."""

    __slots__ = ("buckets", "edges", "sum_ns")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.buckets = [0] * (len(edges) + 1)
        self.sum_ns = 0

    def add(self, ns: int) -> None:
        """Add one."""
        self.buckets[bisect_left(self.edges, ns / NS_PER_S)] += 1
        self.sum_ns += ns

    def merge(self, other: _Times) -> None:
        """Add all of another."""
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]
        self.sum_ns += other.sum_ns


class _Shelf:
    """What one thread has added.

    Calls that failed are apart: so however a reader meets its author, neither they nor the others
    are ever fewer than the reader has seen before.
    """

    __slots__ = ("calls", "codes", "counts", "failed", "steps")

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}
        self.codes: dict[str, float] = {}
        self.steps: dict[str, _Times] = {}
        self.calls: dict[str, _Times] = {}
        self.failed: dict[str, _Times] = {}


class Span:
    """The time of one step or call; may be entered again, and by several threads."""

    __slots__ = ("_begun", "_kind", "_name", "_tally")

    def __init__(self, tally: Tally, kind: str, name: str) -> None:
        self._tally = tally
        self._kind = kind
        self._name = name
        self._begun: list[tuple[int, int]] = []

    def __enter__(self) -> None:
        self._begun.append(self._tally.begin(self._kind, self._name))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tally.end(self._kind, self._name, self._begun.pop(), kind)


class Tally:
    """All that one attempt has said. `declared` names are never folded; by kind.

    `wish` says what the attempt was asked to do; `complain` tells its author of a bad name.
    """

    def __init__(
        self,
        declared: Words,
        wish: Callable[[], Interruption | None],
        complain: Callable[[str], None],
    ) -> None:
        self._wish = wish
        self._complain = complain
        self._shelves: dict[int, _Shelf] = {}
        self._known = {kind: set(declared.get(kind, ())) for kind in KINDS}
        self._most = {kind: len(known) + NAMES_MOST for kind, known in self._known.items()}
        self._told: set[str] = set()
        self._numbers = itertools.count()
        self._in_flight: dict[int, tuple[str, int]] = {}

    def count(self, name: str, n: float) -> None:
        """Add to a count."""
        if type(n) is not int or not 0 <= n <= COUNT_MOST:
            good = _number(n)
            if good is None:
                fault = f"must be a number from 0 to {COUNT_MOST}, not {shorten(n)}: not counted"
                self._tell(f"ctx.count: n {fault}")
                return
            n = good
        counts = self._shelf().counts
        if type(name) is str and name in counts:
            counts[name] += n
            return
        name = self._label("counts", "ctx.count: name", name)
        counts[name] = counts.get(name, 0) + n

    def error_code(self, code: str | int) -> None:
        """Count an error by its code."""
        codes = self._shelf().codes
        name = self._label("codes", "ctx.error_code: code", code)
        codes[name] = codes.get(name, 0) + 1

    def step(self, name: str) -> Span:
        """Return what measures a step."""
        return Span(self, "steps", self._label("steps", "ctx.step: name", name))

    def call(self, service: str) -> Span:
        """Return what measures a call."""
        return Span(self, "calls", self._label("calls", "ctx.call: service", service))

    def begin(self, kind: str, name: str) -> tuple[int, int]:
        """A step or call begins: return its number and its time."""
        number, now = next(self._numbers), mono_ns()
        if kind == "calls":
            self._in_flight[number] = name, now
        return number, now

    def end(
        self, kind: str, name: str, begun: tuple[int, int], left_by: type[BaseException] | None
    ) -> None:
        """A step or call is over; one that ends since its *task* is to stop says nothing."""
        number, at = begun
        ns = mono_ns() - at
        shelf = self._shelf()
        if kind == "steps":
            _times(shelf.steps, name, STEP_BUCKETS).add(ns)
            return
        self._in_flight.pop(number, None)
        failed = left_by is not None and not issubclass(left_by, GeneratorExit)
        if failed and left_by is not None and self._is_stop(left_by):
            return
        _times(shelf.failed if failed else shelf.calls, name, CALL_BUCKETS).add(ns)

    def _is_stop(self, left_by: type[BaseException]) -> bool:
        if issubclass(left_by, Exception):
            return False
        wish = self._wish()
        return wish is not None and not isinstance(wish, SoftTimeout)

    def totals(self) -> wire.Tally:
        """Return all that was said so far; any thread may ask at any time."""
        whole = _Shelf()
        for shelf in self._shelves.copy().values():
            _merge_numbers(whole.counts, shelf.counts)
            _merge_numbers(whole.codes, shelf.codes)
            _merge_times(whole.steps, shelf.steps)
            _merge_times(whole.calls, shelf.calls)
            _merge_times(whole.failed, shelf.failed)
        in_flight: dict[str, wire.InFlight] = {}
        for name, since_ns in self._in_flight.copy().values():
            known = in_flight.get(name, wire.InFlight(0, since_ns))
            in_flight[name] = wire.InFlight(known.number + 1, min(known.since_ns, since_ns))
        return wire.Tally(
            counts={name: float(number) for name, number in whole.counts.items()},
            codes={name: float(number) for name, number in whole.codes.items()},
            steps={name: _timing(times) for name, times in whole.steps.items()},
            calls={
                name: _timing(_times(whole.calls, name, CALL_BUCKETS), whole.failed.get(name))
                for name in (whole.calls | whole.failed)
            },
            in_flight=in_flight,
        )

    def _shelf(self) -> _Shelf:
        ident = get_ident()
        shelf = self._shelves.get(ident)
        if shelf is None:
            if len(self._shelves) >= SHELVES_MOST:
                ident = _SHARED
            shelf = self._shelves.setdefault(ident, _Shelf())
        return shelf

    def _label(self, kind: str, what: str, value: object) -> str:
        """Return under which name something is told: its own, or that of all others."""
        known = self._known[kind]
        if type(value) is str and value in known:
            return value
        name = plain_code(value) if kind == "codes" else plain_label(value)
        if name is None:
            self._tell(f"{what} {label_fault(value)}: told as {OTHER}", once=what)
            return OTHER
        if name not in known and len(known) >= self._most[kind]:
            fault = f"{shorten(name)} is one more than {NAMES_MOST} in one attempt: told as {OTHER}"
            self._tell(f"{what} {fault}", once=what)
            return OTHER
        known.add(name)
        return name

    def _tell(self, fault: str, once: str = "n") -> None:
        if once not in self._told:
            self._told.add(once)
            self._complain(fault)


def _number(n: object) -> float | None:
    """Return a number that can be added, None for anything else."""
    if isinstance(n, int):
        exact = int.__index__(n)  # no rounding into the range
        return exact if 0 <= exact <= COUNT_MOST else None
    try:
        number = math.nan if isinstance(n, str | bytes) else float(n)  # type: ignore[arg-type]
    except Exception:  # a class of the body's own may do anything
        return None
    return number if 0 <= number <= COUNT_MOST else None


def _times(shelf: dict[str, _Times], name: str, edges: tuple[float, ...]) -> _Times:
    times = shelf.get(name)
    if times is None:
        times = shelf[name] = _Times(edges)
    return times


def _merge_numbers(whole: dict[str, float], part: dict[str, float]) -> None:
    for name, number in part.copy().items():
        whole[name] = whole.get(name, 0) + number


def _merge_times(whole: dict[str, _Times], part: dict[str, _Times]) -> None:
    for name, times in part.copy().items():
        _times(whole, name, times.edges).merge(times)


def _timing(times: _Times, failed: _Times | None = None) -> wire.Timing:
    errors = 0
    if failed is not None:
        errors = sum(failed.buckets)
        times.merge(failed)
    return wire.Timing(tuple(times.buckets), times.sum_ns / NS_PER_S, errors)
