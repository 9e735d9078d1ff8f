"""What an attempt says: gathered by name, bounded, and never a reason to fail."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import pytest
from between import looks_between

from supervisor.errors import Interruption, ShutdownRequested, SoftTimeout, TaskCanceled
from supervisor.model.label import NO_WORDS, Words
from supervisor.telemetry.catalog_task import CALL_BUCKETS, STEP_BUCKETS
from supervisor.worker import wire
from supervisor.worker.tally import COUNT_MOST, NAMES_MOST, SHELVES_MOST, Tally


class Scene:
    """A tally, what its author was told, and what its attempt is asked to do."""

    def __init__(self, words: Words = NO_WORDS) -> None:
        self.told: list[str] = []
        self.wish: Interruption | None = None
        self.tally = Tally(words, lambda: self.wish, self.told.append)

    @property
    def totals(self) -> wire.Tally:
        totals = self.tally.totals()
        assert wire.Decoder[Any](wire.Tallied).decode(
            wire.encode(wire.Tallied(1, wire.Spent(), totals))
        ) == wire.Tallied(1, wire.Spent(), totals)
        return totals


@pytest.fixture
def scene() -> Scene:
    return Scene()


class Rows(StrEnum):
    GOOD = "rows.good"


class Evil(str):
    """Text whose own methods must not be trusted."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __str__(self) -> str:
        return "another text"


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __float__(self) -> float:
        raise RuntimeError("no number")


def test_nothing_said_is_nothing_told(scene: Scene) -> None:
    assert scene.totals == wire.Tally()


def test_counts_add_up_by_name(scene: Scene) -> None:
    scene.tally.count("rows", 3)
    scene.tally.count("rows", 4)
    scene.tally.count("mb", 0.25)
    scene.tally.count("rows", True)
    scene.tally.count("none", 0)
    assert scene.totals.counts == {"rows": 8.0, "mb": 0.25, "none": 0.0}
    assert scene.told == []


def test_error_codes_are_texts_or_whole_numbers(scene: Scene) -> None:
    for code in ("E-12", 404, -32601, HTTPStatus.NOT_FOUND, "404", Rows.GOOD):
        scene.tally.error_code(code)
    assert scene.totals.codes == {"E-12": 1, "404": 3, "-32601": 1, "rows.good": 1}
    assert scene.told == []


def test_steps_and_calls_are_sorted_into_buckets(scene: Scene) -> None:
    with scene.tally.step("read"):
        pass
    with scene.tally.call("payments"):
        _pass_s(0.006)
    totals = scene.totals
    assert totals.steps["read"].buckets == (1, *[0] * len(STEP_BUCKETS))
    assert totals.steps["read"].errors == 0
    payments = totals.calls["payments"]
    assert (sum(payments.buckets), payments.buckets[0], payments.errors) == (1, 0, 0)
    assert 0.006 <= payments.sum_s < 5
    assert len(payments.buckets) == len(CALL_BUCKETS) + 1


def test_a_call_is_in_flight_until_it_is_back(scene: Scene) -> None:
    first, second = scene.tally.call("a"), scene.tally.call("a")
    before = time.monotonic_ns()
    with first, scene.tally.call("b"):
        between = time.monotonic_ns()
        with second:
            flying = scene.totals.in_flight
            assert {name: one.number for name, one in flying.items()} == {"a": 2, "b": 1}
            assert before <= flying["a"].since_ns <= between
        assert scene.totals.in_flight["a"].number == 1
        assert sum(scene.totals.calls["a"].buckets) == 1
    assert scene.totals.in_flight == {}


def test_one_call_object_may_be_entered_again_and_inside_itself(scene: Scene) -> None:
    call = scene.tally.call("a")
    with call, call:
        assert scene.totals.in_flight["a"].number == 2
    with call:
        pass
    assert sum(scene.totals.calls["a"].buckets) == 3
    assert scene.totals.in_flight == {}


@pytest.mark.parametrize(
    ("error", "wish", "seen"),
    [
        (ValueError("no"), None, (1, 1)),
        (ValueError("no"), TaskCanceled("stop"), (1, 1)),
        (SoftTimeout("long"), SoftTimeout("long"), (1, 1)),
        (asyncio.CancelledError(), None, (1, 1)),
        (asyncio.CancelledError(), SoftTimeout("long"), (1, 1)),
        (asyncio.CancelledError(), TaskCanceled("stop"), (0, 0)),
        (TaskCanceled("stop"), TaskCanceled("stop"), (0, 0)),
        (ShutdownRequested("bye"), ShutdownRequested("bye"), (0, 0)),
        (KeyboardInterrupt(), None, (1, 1)),
        (GeneratorExit(), None, (1, 0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_which_exceptions_are_the_services_fault(
    scene: Scene, error: BaseException, wish: Interruption | None, seen: tuple[int, int]
) -> None:
    scene.wish = wish
    with pytest.raises(type(error)), scene.tally.call("a"), scene.tally.step("s"):
        raise error
    timing = scene.totals.calls.get("a", wire.Timing())
    assert (sum(timing.buckets), timing.errors) == seen
    assert sum(scene.totals.steps["s"].buckets) == 1
    assert scene.totals.in_flight == {}


def test_neither_good_calls_nor_failed_ones_become_fewer_however_a_reader_meets_them(
    scene: Scene,
) -> None:
    def change() -> None:
        for error in (None, ValueError("no"), None):
            with suppress(ValueError), scene.tally.call("a"):
                if error is not None:
                    raise error

    def calls() -> tuple[int, int]:
        timing = scene.totals.calls.get("a", wire.Timing())
        return sum(timing.buckets) - timing.errors, timing.errors

    seen = looks_between(change, calls, "worker/tally.py")
    assert (seen[0], seen[-1]) == ((0, 0), (2, 1))
    for values in zip(*seen, strict=True):
        assert list(values) == sorted(values)


BAD_NAMES = [
    "", "x" * 65, "a b", "ü", "a\n", "a\ud800", "_x", ".x", 'a"b', "a{b", None, 7.5, True, b"rows",
    [], Odd(), Evil("a b"), 10**30,
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=[f"bad{n}" for n in range(len(BAD_NAMES))])
def test_a_bad_name_is_told_once_and_folded(scene: Scene, name: Any) -> None:
    def measured(span: Any) -> None:
        with span:
            pass

    acts: dict[str, Callable[[], None]] = {
        "ctx.count: name": lambda: scene.tally.count(name, 2),
        "ctx.error_code: code": lambda: scene.tally.error_code(name),
        "ctx.step: name": lambda: measured(scene.tally.step(name)),
        "ctx.call: service": lambda: measured(scene.tally.call(name)),
    }
    for act in [*acts.values(), *acts.values()]:
        act()
    totals = scene.totals
    assert totals.counts == {"_other": 4.0}
    assert totals.codes == {"_other": 2.0}
    assert sum(totals.steps["_other"].buckets) == 2
    assert sum(totals.calls["_other"].buckets) == 2
    assert [one.partition(" must be text of 1 to 64 letters")[0] for one in scene.told] == [*acts]
    assert all(len(one) < 250 for one in scene.told)


def test_good_names(scene: Scene) -> None:
    for name in ("a", "x" * 64, "a.b_c-d:e/f", "9lives", Rows.GOOD, Evil("evil")):
        scene.tally.count(name, 1)
    assert list(scene.totals.counts) == [
        "a",
        "x" * 64,
        "a.b_c-d:e/f",
        "9lives",
        "rows.good",
        "evil",
    ]
    assert scene.told == []


@pytest.mark.parametrize(
    "n", [-1, -0.5, float("nan"), float("inf"), "3", b"3", None, [], Odd(), 1j, 10**400,
          COUNT_MOST + 1]
)  # fmt: skip
def test_what_is_no_count_is_told_once_and_left_out(scene: Scene, n: Any) -> None:
    scene.tally.count("rows", 1)
    scene.tally.count("rows", n)
    scene.tally.count("rows", n)
    assert scene.totals.counts == {"rows": 1.0}
    (told,) = scene.told
    assert told.startswith("ctx.count: n must be a number from 0 to 9007199254740992, not ")
    assert len(told) < 250


def test_names_are_bounded_and_declared_ones_are_not_counted_among_them() -> None:
    scene = Scene({"counts": ("late",), "codes": ("404",)})
    for number in range(10 * NAMES_MOST):
        scene.tally.count(f"n{number}", 1)
        scene.tally.error_code(number)
        with scene.tally.step(f"n{number}"), scene.tally.call(f"n{number}"):
            pass
    scene.tally.count("late", 5)
    totals = scene.totals
    assert len(totals.counts) == NAMES_MOST + 2
    assert (totals.counts["_other"], totals.counts["late"]) == (9 * NAMES_MOST, 5)
    assert (len(totals.codes), totals.codes["404"]) == (NAMES_MOST + 2, 1)
    assert len(totals.steps) == len(totals.calls) == NAMES_MOST + 1
    assert sum(totals.calls["_other"].buckets) == 9 * NAMES_MOST
    assert len(scene.told) == 4


def test_threads_lose_nothing(scene: Scene) -> None:
    def work() -> None:
        for _ in range(2000):
            scene.tally.count("rows", 1)
            with scene.tally.call("a"), scene.tally.step("s"):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    before = wire.Tally()
    while any(thread.is_alive() for thread in threads):  # whoever asks meanwhile sees it grow
        now = scene.totals
        assert now.counts.get("rows", 0) >= before.counts.get("rows", 0)
        before = now
    for thread in threads:
        thread.join()
    totals = scene.totals
    assert totals.counts == {"rows": 16_000.0}
    assert sum(totals.calls["a"].buckets) == sum(totals.steps["s"].buckets) == 16_000
    assert totals.in_flight == {}


def test_the_number_of_shelves_is_bounded(scene: Scene) -> None:
    gate = threading.Barrier(SHELVES_MOST + 20)

    def work() -> None:
        scene.tally.count("rows", 1)
        gate.wait()

    threads = [threading.Thread(target=work) for _ in range(SHELVES_MOST + 19)]
    for thread in threads:
        thread.start()
    gate.wait()
    for thread in threads:
        thread.join()
    assert len(scene.tally._shelves) == SHELVES_MOST + 1
    assert scene.totals.counts["rows"] == SHELVES_MOST + 19


def test_a_count_costs_less_than_a_microsecond(scene: Scene) -> None:
    best = min(_counting_s(scene.tally) for _ in range(3))
    assert best < 0.1  # 100,000 of them; a quarter of that on a quiet machine


def _counting_s(tally: Tally) -> float:
    began = time.process_time()
    for _ in range(100_000):
        tally.count("rows", 1)
    return time.process_time() - began


def _pass_s(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
