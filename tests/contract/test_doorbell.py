"""The doorbell, whichever kind rings: what is rung is heard, by whom, in which order.

What only a socket does is in test_doorbell_socket.py; what a server does that fails, in
tests/integration/test_redis_bell.py and test_notify_bell.py.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness import eventually

from supervisor.model.record import Due, Level
from supervisor.queue import ANY_PRIORITY, Bell, Heard, Kind, Listener, open_bell, open_listener
from supervisor.testing import MemoryDoor

ALL_KINDS = ("memory", "socket", "notify", "redis")
WITH_IDS = ("memory", "redis")
ANOTHER_USER_S = 1.2  # what a listener may take to close


@dataclass
class Door:
    """Makes bells and listeners of one store, and closes them at the end."""

    bell_of: Callable[[], Bell]
    listener_of: Callable[[], Listener]
    stack: ExitStack
    address: tuple[str, str, str] = ("", "", "")

    def bell(self) -> Bell:
        return self.stack.enter_context(self.bell_of())

    def listener(self, *types: str, queues: tuple[str, ...] | None = None) -> Listener:
        """A listener that hears: what it says of its start is taken."""
        made = self.stack.enter_context(self.listener_of())
        made.serve(queues, frozenset(types))
        eventually(lambda: not made.away, what="the listener hears")
        made.heard()
        return made


@pytest.fixture
def doors(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Door]]:
    """Makes the doors of different stores, all of one kind."""
    kind = request.param
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with ExitStack() as stack:

        def door() -> Door:
            identity = uuid.uuid4().hex[:16]
            if kind == "memory":
                memory = MemoryDoor()
                return Door(memory.bell, memory.listener, stack)
            queue, store = _addresses(request, kind, identity)
            return Door(
                lambda: open_bell(queue, store, identity),
                lambda: open_listener(queue, store, identity),
                stack,
                (queue, store, identity),
            )

        yield door
    assert [one.name for one in threading.enumerate() if one.name.startswith("bell")] == []


def _addresses(request: pytest.FixtureRequest, kind: str, identity: str) -> tuple[str, str]:
    if kind == "socket":
        return "none", f"sqlite:////{identity}.db"
    if kind == "redis":
        return request.getfixturevalue("redis_server").url, "postgresql+psycopg://nobody@nowhere/x"
    return "none", request.getfixturevalue("postgresql").url.replace("://", "+psycopg://")


@pytest.fixture
def door(doors: Callable[[], Door]) -> Door:
    return doors()


def of_kinds(*kinds: str) -> Any:
    return pytest.mark.parametrize("doors", kinds, indirect=True)


def due(task_id: str, *, at: float = 1.0, level: Level = ("default", 5, "send")) -> Due:
    return Due(level, task_id, at)


def hear(listener: Listener, ids: int = 0, *kinds: str) -> Heard:
    """Wait until that many ids and these kinds have been heard; return all that was."""
    heard_kinds: set[str] = set()
    tips: list[str] = []
    deadline = time.monotonic() + 5
    while len(tips) < ids or not heard_kinds >= set(kinds):
        assert time.monotonic() < deadline, f"only heard {heard_kinds} {tips}"
        select.select([listener], [], [], 0.5)
        some = listener.heard()
        heard_kinds |= some.kinds
        tips += some.tips
    return Heard(frozenset(heard_kinds), tuple(tips))


def hears(listener: Listener, for_s: float) -> set[str]:
    """Return the kinds that come in within a while."""
    deadline = time.monotonic() + for_s
    kinds: set[str] = set()
    while time.monotonic() < deadline:
        select.select([listener], [], [], 0.1)
        kinds |= listener.heard().kinds
    return kinds


def hears_nothing(listener: Listener, for_s: float = 0.7) -> bool:
    """Whether nothing comes in for longer than a pop waits on the server."""
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        select.select([listener], [], [], 0.1)
        if (some := listener.heard()) != Heard():
            raise AssertionError(f"heard {some}")
    return True


class TestEveryKind:
    pytestmark = of_kinds(*ALL_KINDS)

    def test_rings_are_heard_and_taken_together(self, door: Door) -> None:
        listener, bell = door.listener("send"), door.bell()
        assert listener.heard() == Heard()
        for kind in ("due", "cancel", "due"):
            bell.ring(kind)  # type: ignore[arg-type]
        assert hear(listener, 0, "due", "cancel") == Heard(frozenset({"due", "cancel"}))
        # The third may have been on its way while the first two were heard.
        assert hears(listener, 0.7) <= {"due"}
        assert hears_nothing(listener)
        assert select.select([listener], [], [], 0)[0] == []

    def test_what_is_due_is_heard_as_ids_or_as_a_kind(self, door: Door) -> None:
        listener, bell = door.listener("send"), door.bell()
        listener.want(5)
        bell.ring("due", [due("task_1")])
        if listener.carries_ids:
            assert hear(listener, 1).tips == ("task_1",)
        else:
            assert hear(listener, 0, "due") == Heard(frozenset({"due"}))

    def test_ringing_with_nobody_to_hear_or_after_the_end_is_no_error(self, door: Door) -> None:
        bell = door.bell()
        bell.ring("cancel")
        bell.close()
        bell.ring("due", [due("task_1")])
        bell.close()

    def test_another_store_hears_nothing(self, doors: Callable[[], Door]) -> None:
        mine, other = doors(), doors()
        listener, stranger = mine.listener("send"), other.listener("send")
        stranger.want(5)
        bell = mine.bell()
        bell.ring("cancel")
        bell.ring("due", [due("task_1")])
        hear(listener, 0, "cancel")
        assert hears_nothing(stranger)

    def test_a_flood_of_rings_is_heard_and_none_waits(self, door: Door) -> None:
        listener, bell = door.listener("send"), door.bell()
        longest_s = 0.0
        for _ in range(2000):
            began = time.perf_counter()
            bell.ring("due", [due("task_1")])
            longest_s = max(longest_s, time.perf_counter() - began)
        bell.ring("cancel")
        assert longest_s < 2  # for ever if one waited until it is heard
        # A socket holds eleven: there the kinds that were heard are enough.
        hear(listener, 0, *(() if not listener.carries_ids else ("cancel",)))

    def test_bells_of_several_threads_are_heard(self, door: Door) -> None:
        listener, bell = door.listener("send"), door.bell()
        kinds: list[Kind] = ["due", "cancel"]
        threads = [threading.Thread(target=bell.ring, args=(kind,)) for kind in kinds * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert hear(listener, 0, "due", "cancel").kinds == {"due", "cancel"}

    def test_the_end_is_quick(self, door: Door) -> None:
        listener, bell = door.listener("send"), door.bell()
        listener.want(5)
        bell.ring("cancel")
        hear(listener, 0, "cancel")
        began = time.monotonic()
        bell.close()
        listener.close()
        assert time.monotonic() - began < ANOTHER_USER_S

    def test_a_last_ring_is_heard_when_the_bell_closes_at_once(self, door: Door) -> None:
        listener = door.listener("send")
        with door.bell_of() as bell:
            bell.ring("cancel")
        assert hear(listener, 0, "cancel").kinds == {"cancel"}


@of_kinds("socket", "notify", "redis")
def test_parent_and_child_ring_after_a_fork(door: Door) -> None:
    listener, bell = door.listener("send"), door.bell()
    bell.ring("due")
    hear(listener, 0, "due")
    child = os.fork()
    if child == 0:
        try:
            bell.ring("cancel")
            bell.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert hear(listener, 0, "cancel").kinds == {"cancel"}
    bell.ring("due")
    assert hear(listener, 0, "due").kinds == {"due"}


@of_kinds("socket", "notify", "redis")
def test_a_program_that_ends_without_closing_has_rung(door: Door) -> None:
    listener = door.listener("send")
    program = (
        "import sys; from supervisor.queue import open_bell\n"
        "open_bell(*sys.argv[1:]).ring('cancel')\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, *door.address], check=True)
    assert hear(listener, 0, "cancel").kinds == {"cancel"}


@of_kinds("memory", "notify", "redis")
def test_all_nodes_hear_of_a_cancel(door: Door) -> None:
    one, two = door.listener("send"), door.listener("send")
    door.bell().ring("cancel")
    assert [hear(each, 0, "cancel").kinds for each in (one, two)] == [{"cancel"}, {"cancel"}]


class TestIds:
    pytestmark = of_kinds(*WITH_IDS)

    def test_the_highest_priority_of_all_queues_comes_first_then_what_is_due_longest(
        self, door: Door
    ) -> None:
        bell = door.bell()
        bell.ring(
            "due",
            [
                due("low", at=1, level=("a", 1, "send")),
                due("late", at=9, level=("b", 9, "send")),
                due("early", at=8, level=("b", 9, "send")),
                due("middle", at=1, level=("a", 5, "send")),
            ],
        )
        bell.close()
        listener = door.listener("send")
        listener.want(4)
        assert hear(listener, 4).tips == ("early", "late", "middle", "low")

    def test_levels_of_one_priority_take_turns(self, door: Door) -> None:
        bell = door.bell()
        full = [due(f"full_{n}", at=n, level=("a", 5, "send")) for n in range(6)]
        bell.ring("due", [*full, due("lone", at=9, level=("b", 5, "send"))])
        bell.close()
        listener = door.listener("send")
        heard: list[str] = []
        for _ in range(4):
            listener.want(1)
            heard += hear(listener, 1).tips
        assert "lone" in heard[:2]
        assert [task_id for task_id in heard if task_id != "lone"] == ["full_0", "full_1", "full_2"]

    def test_a_paused_level_and_a_paused_queue_are_left_alone_until_they_are_not(
        self, door: Door
    ) -> None:
        listener, bell = door.listener("send"), door.bell()
        listener.avoid(frozenset({("a", 5), ("b", ANY_PRIORITY)}))
        listener.want(9)
        paused = [due("a5", level=("a", 5, "send")), due("b7", level=("b", 7, "send"))]
        bell.ring("due", [*paused, due("a6", level=("a", 6, "send"))])
        assert hear(listener, 1).tips == ("a6",)
        assert hears_nothing(listener)
        listener.avoid(frozenset({("a", 5)}))
        assert hear(listener, 1).tips == ("b7",)
        listener.avoid(frozenset())
        assert hear(listener, 1).tips == ("a5",)

    def test_a_pause_takes_effect_while_a_pop_waits(self, door: Door) -> None:
        listener, bell = door.listener("send"), door.bell()
        listener.want(9)
        bell.ring("due", [due("first")])
        hear(listener, 1)
        time.sleep(0.05)  # a pop waits now, for this level
        listener.avoid(frozenset({("default", 5)}))
        bell.ring("due", [due("second")])
        assert hears_nothing(listener)
        listener.avoid(frozenset())
        assert hear(listener, 1).tips == ("second",)

    def test_unknown_types_and_other_queues_are_left_for_who_knows_them(self, door: Door) -> None:
        bell = door.bell()
        knows_one = door.listener("send", queues=("a",))
        knows_one.want(9)
        of_one, of_other = due("one", level=("a", 5, "send")), due("two", level=("a", 5, "paint"))
        bell.ring("due", [of_other, of_one, due("three", level=("b", 5, "send"))])
        assert hear(knows_one, 1).tips == ("one",)
        assert hears_nothing(knows_one)
        knows_all = door.listener("send", "paint")
        knows_all.want(9)
        assert set(hear(knows_all, 2).tips) == {"two", "three"}

    def test_a_new_type_after_a_reload_is_heard_of(self, door: Door) -> None:
        listener, bell = door.listener("send"), door.bell()
        listener.want(9)
        bell.ring("due", [due("one", level=("a", 5, "paint"))])
        assert hears_nothing(listener)
        listener.serve(None, frozenset({"send", "paint"}))
        assert hear(listener, 1).tips == ("one",)

    def test_nothing_is_popped_that_is_not_wanted(self, door: Door) -> None:
        bell, listener = door.bell(), door.listener("send")
        bell.ring("due", [due(f"task_{n}", at=n) for n in range(5)])
        listener.want(0)
        assert hears_nothing(listener)
        listener.want(2)
        assert hear(listener, 2).tips == ("task_0", "task_1")
        assert hears_nothing(listener)
        other = door.listener("send")
        other.want(9)
        assert hear(other, 3).tips == ("task_2", "task_3", "task_4")

    def test_ids_that_wait_to_be_taken_count(self, door: Door) -> None:
        bell, listener = door.bell(), door.listener("send")
        listener.want(2)
        bell.ring("due", [due(f"task_{n}", at=n) for n in range(5)])
        select.select([listener], [], [], 5)
        listener.want(3)  # one more than was popped
        assert hear(listener, 3).tips == ("task_0", "task_1", "task_2")
        assert hears_nothing(listener)

    def test_want_nothing_takes_effect_while_a_pop_waits(self, door: Door) -> None:
        bell, listener = door.bell(), door.listener("send")
        listener.want(2)
        bell.ring("due", [due("first")])
        hear(listener, 1)
        time.sleep(0.05)  # a pop for one more waits
        listener.want(0)
        bell.ring("due", [due("second")])
        assert hears_nothing(listener)
        other = door.listener("send")
        other.want(1)
        assert hear(other, 1).tips == ("second",)

    def test_what_a_listener_popped_and_nobody_took_is_given_back_at_the_end(
        self, door: Door
    ) -> None:
        bell, listener = door.bell(), door.listener("send")
        listener.want(3)
        bell.ring("due", [due("one", at=1), due("two", at=2)])
        select.select([listener], [], [], 5)
        listener.close()
        other = door.listener("send")
        other.want(3)
        assert hear(other, 2).tips == ("one", "two")

    def test_an_id_that_was_rung_twice_is_heard_once(self, door: Door) -> None:
        bell = door.bell()
        bell.ring("due", [due("one"), due("one")])
        bell.ring("due", [due("one", at=5)])
        bell.close()
        listener = door.listener("send")
        listener.want(9)
        assert hear(listener, 1).tips == ("one",)
        assert hears_nothing(listener)

    def test_two_nodes_share_what_is_due_and_neither_hears_an_id_twice(self, door: Door) -> None:
        listeners = [door.listener("send"), door.listener("send")]
        bell = door.bell()
        bell.ring("due", [due(f"task_{n:03}", at=n) for n in range(300)])
        heard: list[list[str]] = [[], []]

        def drained() -> bool:
            for listener, mine in zip(listeners, heard, strict=True):
                listener.want(10)
                mine.extend(listener.heard().tips)
            return sum(map(len, heard)) >= 300

        eventually(drained)
        assert sorted(heard[0] + heard[1]) == [f"task_{n:03}" for n in range(300)]
        assert all(heard)
