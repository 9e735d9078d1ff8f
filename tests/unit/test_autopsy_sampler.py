"""What a process notes of itself, and how its history is told (all in this process's memory)."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from autopsy import clock, stackring
from autopsy.collect.history import History, Moment, Stack, as_growth, as_stacks, history_in
from autopsy.sampler import MAX_CALLS, MAX_TASKS, MAX_THREADS, Sampler
from autopsy.section import Skipped
from autopsy.stackring import UNKNOWN, Facts, Sample, Shapes, StackRing, create_stack_ring


@pytest.fixture
def fd() -> Iterator[int]:
    made = create_stack_ring(300)
    yield made
    os.close(made)


@pytest.fixture
def sampler(fd: int) -> Sampler:
    return Sampler(fd)


def take(sampler: Sampler, attempt: int = 1) -> None:
    """Take a sample from a thread of its own, as a worker's pulse does, whenever the last was."""
    sampler._due = 0.0
    thread = threading.Thread(target=sampler.turn, args=(attempt,))
    thread.start()
    thread.join()


def history_of(fd: int, begun_at: float = 0.0) -> History:
    return history_in(os.dup(fd), begun_at)


def by_name(moment: Moment) -> dict[str, Stack]:
    """Return the stacks of this test's threads; others of the process are not its business."""
    named = {thread[2]: stack for thread, stack in moment.stacks.items()}
    own = ("MainThread", "waits-")
    return {name: stack for name, stack in named.items() if name.startswith(own)}


def functions(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["function"].rpartition(".")[2] for frame in frames]


def _places(threads: list[threading.Thread]) -> list[tuple[str, int]]:
    """Where each of them is right now."""
    gc.disable()  # a collection in the middle of this call can block the interpreter for good
    frames = sys._current_frames()
    gc.enable()
    found = [frames[thread.ident] for thread in threads if thread.ident in frames]
    return [(frame.f_code.co_qualname, frame.f_lasti) for frame in found]


@contextmanager
def waiting(count: int = 1, depth: int = 0) -> Iterator[None]:
    """Let that many threads wait, so many calls deep."""
    go, there = threading.Event(), threading.Barrier(count + 1)

    def descend(left: int) -> None:
        if left:
            descend(left - 1)
        else:
            there.wait()
            go.wait()

    threads = [
        threading.Thread(target=descend, args=(depth,), name=f"waits-{n}") for n in range(count)
    ]
    for thread in threads:
        thread.start()
    there.wait()
    places = None
    while places != (places := _places(threads)):  # on the way from the barrier to where they wait
        time.sleep(0.005)
    try:
        yield
    finally:
        go.set()
        for thread in threads:
            thread.join()


class TestSampler:
    def test_it_notes_every_thread_but_its_own(self, fd: int, sampler: Sampler) -> None:
        with waiting(2):
            take(sampler)
        (moment,) = history_of(fd).moments
        named = by_name(moment)
        assert set(named) == {"MainThread", "waits-0", "waits-1"}
        main = [function.rpartition(".")[2] for function, _, _ in named["MainThread"]]
        assert main.index("take") < main.index(
            "test_it_notes_every_thread_but_its_own"
        )  # innermost first
        assert {tid for _, tid, _ in moment.stacks} >= {os.getpid()}
        assert moment.facts.threads >= 4
        assert moment.facts.rss_bytes > 1 << 20
        assert moment.facts.fds >= 3
        assert moment.facts.attempt == 1

    def test_a_line_is_the_one_that_is_executed(self, fd: int, sampler: Sampler) -> None:
        source, first = inspect.getsourcelines(waiting)
        line = first + next(n for n, text in enumerate(source) if "go.wait()" in text)
        with waiting():
            take(sampler)
        (moment,) = history_of(fd).moments
        assert ("waiting.<locals>.descend", __file__, line) in by_name(moment)["waits-0"]

    def test_not_more_than_one_sample_a_second(self, fd: int, sampler: Sampler) -> None:
        take(sampler)
        for _ in range(5):
            sampler.turn(1)
        assert len(history_of(fd).moments) == 1

    def test_a_window_of_nothing_takes_no_sample(self) -> None:
        fd = create_stack_ring(0)
        take(Sampler(fd))
        assert stackring.fillings(fd) == []
        os.close(fd)

    def test_depth_is_bounded_and_said_to_be(self, fd: int, sampler: Sampler) -> None:
        with waiting(1, depth=300):
            take(sampler)
        (moment,) = history_of(fd).moments
        stack = by_name(moment)["waits-0"]
        assert len(stack) == MAX_CALLS + 1
        assert stack[-1] == ("... further calls left out ...", "", 0)

    def test_threads_are_bounded_and_the_main_thread_is_among_them(
        self, fd: int, sampler: Sampler
    ) -> None:
        with waiting(MAX_THREADS + 20):
            take(sampler)
        (moment,) = history_of(fd).moments
        assert len(moment.stacks) == MAX_THREADS
        assert next(iter(moment.stacks))[1:] == (os.getpid(), "MainThread")
        assert moment.facts.threads > MAX_THREADS + 20

    def test_an_unchanged_stack_takes_no_room(self, fd: int, sampler: Sampler) -> None:
        with waiting(20, depth=10):
            take(sampler)
            take(sampler)
            before = len(stackring.fillings(fd)[0])
            take(sampler)
            *_, last = written = stackring.fillings(fd)[0]
        assert len(written) - before <= 3  # the main thread may have been at another line
        assert len(stackring.unpack_sample(last).moved) <= 1
        take(sampler)
        assert [len(by_name(one)) for one in history_of(fd).moments] == [21, 21, 21, 1]

    def test_when_the_memory_is_full_it_starts_anew_with_what_is_current(
        self, fd: int, sampler: Sampler
    ) -> None:
        with waiting(5):
            for number in range(2000):
                call_from_new_code(number, lambda: take(sampler))
                if sampler._ring._number == 4:
                    break
        moments = history_of(fd).moments
        assert sampler._ring._number == 4
        assert sampler.lost == 0
        assert len(moments) > 200
        assert {len(by_name(one)) for one in moments} == {6}
        newest = next(iter(moments[-1].stacks.values()))
        assert f"made_up_{number}_" in " ".join(function for function, _, _ in newest)

    def test_what_it_remembers_is_bounded(self, sampler: Sampler) -> None:
        for number in range(600):
            call_from_new_code(number, lambda: take(sampler))
        assert len(sampler._stacks) < 300

    def test_finalizers_do_not_run_in_its_thread(self, sampler: Sampler) -> None:
        gc.disable()
        take(sampler)
        assert not gc.isenabled()
        gc.enable()
        take(sampler)
        assert gc.isenabled()

    def test_no_descriptor_need_be_left(self, fd: int, sampler: Sampler) -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with waiting():
                take(sampler)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        (moment,) = history_of(fd).moments
        assert "waits-0" in by_name(moment)
        assert moment.facts.rss_bytes >= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 512

    def test_an_interpreter_in_disorder_costs_the_sample_and_no_more(
        self, fd: int, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading, "_active", None)
            sampler.turn(1)
        assert sampler.lost == 1
        take(sampler)
        assert len(history_of(fd).moments) == 1


def call_from_new_code(number: int, body: Callable[[], None]) -> None:
    """Call it from code that was never seen before, with long names."""
    name = f"made_up_{number}_" + "x" * 100
    names: dict[str, Any] = {}
    exec(compile(f"def {name}(body): body()", f"/{'d' * 300}/{number}.py", "exec"), names)
    names[name](body)


class TestTasks:
    def sampled(self, sampler: Sampler, count: int) -> None:
        async def main() -> None:
            held = asyncio.Event()
            tasks = [asyncio.create_task(holds(held)) for _ in range(count)]
            await asyncio.sleep(0)
            take(sampler)
            held.set()
            await asyncio.gather(*tasks)

        asyncio.run(main())

    def test_tasks_are_grouped_by_what_they_await(self, fd: int, sampler: Sampler) -> None:
        self.sampled(sampler, 12)
        history = history_of(fd)
        assert history.moments[-1].facts.tasks == history.seen == 13
        (most, count), *others = history.shapes.most_common()
        assert count == 12
        names = [function.rpartition(".")[2] for function, _, _ in most]
        assert names == ["wait", "inner", "holds"]
        assert [count for _, count in others] == [1]

    def test_of_many_tasks_only_some_are_looked_at(self, fd: int, sampler: Sampler) -> None:
        self.sampled(sampler, 5000)
        history = history_of(fd)
        assert history.moments[-1].facts.tasks == 5001
        assert sum(history.shapes.values()) == history.seen <= MAX_TASKS
        told = as_stacks(history, is_alive=True)["tasks"]
        assert (told["total_now"], told["seen"]) == (5001, history.seen)
        assert functions(told["shapes"][0]["stack"]) == ["wait", "inner", "holds"]
        assert [total for _, total in told["series"]] == [5001]

    def test_a_process_without_tasks_tells_of_none(self, fd: int, sampler: Sampler) -> None:
        take(sampler)
        assert as_stacks(history_of(fd), is_alive=True)["tasks"] is None


async def holds(held: asyncio.Event) -> None:
    await inner(held)


async def inner(held: asyncio.Event) -> None:
    await held.wait()


class Noted:
    """A ring that is written by hand."""

    def __init__(self, fd: int) -> None:
        self.now = clock.mono()
        self.ring = StackRing(fd)
        self.ring.turn()
        self.ring.append(stackring.pack_code("read", "/srv/app.py"))
        self.ring.append(stackring.pack_code("main", "/srv/app.py"))
        self.ring.append(stackring.pack_stack([0, 10, 1, 5], is_cut=False))
        self.ring.append(stackring.pack_stack([1, 6], is_cut=False))
        self.ring.append(stackring.pack_thread(77, 7, "MainThread"))
        self.ring.append(stackring.pack_thread(88, 0, ""))

    def sample(
        self, age_s: float, *moved: tuple[int, int], left: tuple[int, ...] = (), **facts: Any
    ) -> None:
        values: dict[str, Any] = {
            "mono": self.now - age_s, "wall": 1e9 - age_s, "attempt": 1, "rss_bytes": 1000,
            "threads": 2, "fds": 3, "tasks": -1,
        }  # fmt: skip
        self.ring.append(stackring.pack_sample(Sample(Facts(**values | facts), moved, left)))


@pytest.fixture
def noted(fd: int) -> Iterator[Noted]:
    made = Noted(fd)
    yield made
    made.ring.close()


def ages(runs: list[list[Any]]) -> list[list[Any]]:
    """Round ages to whole seconds: the test itself takes a while."""
    return [[round(age), *rest] for age, *rest in runs]


class TestHistory:
    def test_it_is_told_in_runs(self, fd: int, noted: Noted) -> None:
        noted.sample(5, (0, 0), (1, 1))
        noted.sample(4)
        noted.sample(3, (0, 1))
        noted.sample(2, (0, 0), left=(1,))
        told = as_stacks(history_of(fd), is_alive=True)
        read = {"function": "read", "file": "/srv/app.py", "line": 10}
        main = [{"function": "main", "file": "/srv/app.py", "line": line} for line in (5, 6)]
        assert sorted(told["stacks"], key=len) == [[main[1]], [read, main[0]]]
        deep = told["stacks"].index([read, main[0]])
        flat = 1 - deep
        assert [(one["tid"], one["ident"], one["name"]) for one in told["threads"]] == [
            (7, 77, "MainThread"), (None, 88, ""),
        ]  # fmt: skip
        assert [ages(one["runs"]) for one in told["threads"]] == [
            [[-5, deep, 2], [-3, flat, 1], [-2, deep, 1]],
            [[-5, flat, 3]],
        ]
        assert (told["seconds"], told["samples"], told["left_out"]) == (3.0, 4, 0)
        assert (told["gaps"], told["tasks"]) == ([], None)

    def test_a_time_without_samples_is_a_gap(self, fd: int, noted: Noted) -> None:
        for age in (100, 99, 60, 59):
            noted.sample(age, (0, 0))
        history = history_of(fd)
        dead = as_stacks(history, is_alive=False)["gaps"]
        assert ages(dead) == [[-99, 39.0]]
        alive = as_stacks(history, is_alive=True)["gaps"]
        assert [[round(number) for number in gap] for gap in alive] == [[-99, 39], [-59, 59]]

    def test_samples_of_earlier_attempts_are_no_evidence(self, fd: int, noted: Noted) -> None:
        noted.sample(9, (0, 0), attempt=1)
        noted.sample(8, attempt=1)
        noted.sample(7, (0, 1), attempt=2)
        noted.sample(6, attempt=2)
        (thread,) = as_stacks(history_of(fd), is_alive=True)["threads"]
        assert [run[2] for run in thread["runs"]] == [2]
        assert len(history_of(fd, 1e9 - 6.5).moments) == 2  # the clock was set during the attempt
        with pytest.raises(Skipped, match="no sample was taken of this attempt"):
            history_of(fd, 1e9 - 5)

    def test_what_is_older_than_the_window_is_left_out(self, fd: int, noted: Noted) -> None:
        for age in (400, 299, 100, 1):
            noted.sample(age, (0, 0))
        moments = history_of(fd).moments
        assert [round(noted.now - one.facts.mono) for one in moments] == [299, 100, 1]

    def test_growth_starts_with_the_first_sample(self, fd: int, noted: Noted) -> None:
        noted.sample(3, rss_bytes=1000, threads=2, fds=3)
        noted.sample(2, rss_bytes=2000, threads=5, fds=-1)
        grown = as_growth(history_of(fd))
        assert grown["source"] == "ring"
        assert ages(grown["points"]) == [[-3, 1000, 2, 3], [-2, 2000, 5, None]]
        assert {**grown["baseline"], "at_age_s": round(grown["baseline"]["at_age_s"])} == {
            "at_age_s": -3, "rss_bytes": 1000, "threads": 2, "fds": 3,
        }  # fmt: skip

    def test_a_stack_that_was_not_looked_up_is_empty(self, fd: int, noted: Noted) -> None:
        noted.sample(3, (0, UNKNOWN))
        noted.ring.append(stackring.pack_tasks(Shapes(3, ((0, 2), (UNKNOWN, 1)))))
        noted.sample(2, (0, 0), tasks=3)
        history = history_of(fd)
        assert [len(stack) for one in history.moments for stack in one.stacks.values()] == [0, 2]
        assert (history.seen, list(history.shapes.values())) == (3, [2])

    def test_very_many_stacks_are_bounded_and_the_rest_counted(self, fd: int, noted: Noted) -> None:
        for number in range(300):
            noted.ring.append(stackring.pack_stack([0, 1000 + number], is_cut=False))
            noted.sample(299 - number, (0, 2 + number))
        told = as_stacks(history_of(fd), is_alive=True)
        assert (len(told["stacks"]), told["left_out"]) == (120, 180)
        runs = told["threads"][0]["runs"]
        assert len(runs) == 300
        assert [run[1] is None for run in runs].count(True) == 180
        assert runs[-1][1] == 0  # where it was last is always told

    def test_of_many_short_lived_threads_the_lasting_ones_are_told(
        self, fd: int, noted: Noted
    ) -> None:
        noted.sample(150, (0, 0))
        for number in range(120):
            noted.ring.append(stackring.pack_thread(1000 + number, 0, f"request-{number}"))
            gone = (1 + number,) if number else ()
            noted.sample(120 - number, (2 + number, 1), left=gone)
        told = as_stacks(history_of(fd), is_alive=True)
        assert (len(told["threads"]), told["threads_left_out"]) == (100, 21)
        assert [one["name"] for one in told["threads"][:2]] == ["MainThread", "request-119"]

    def test_a_process_that_noted_nothing_is_skipped(self) -> None:
        with pytest.raises(Skipped):
            history_in(create_stack_ring(300))
