"""Two things at the same moment, many times: one ending each, and the one that is true.

A body returns while its limit strikes, while it is canceled, or while its worker is killed. Which
comes first is up to the machine; that exactly one of the two counts is not.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness import NodeUnderTest, eventually
from invariants import Account, Ends
from stores import FILE, SERVER_AND_REDIS
from storm import APP, SETTINGS, chosen_seed, live

from supervisor.client import Handle

pytestmark = pytest.mark.timeout(240)

RACERS, LENGTH_S = 24, 0.4
#: Strikes fall so long before the body returns.
BEFORE_S = {"limit": (-0.03, 0.03), "cancel": (0.0, 1.4), "kill": (-0.03, 0.03)}
#: A canceled one is killed after its grace and its evidence: it is told so much earlier.
GRACE_S = 0.3
#: On a busy machine one side may always win; then there is another race, spread out more.
SPREADS = (1, 2, 4)
RETURNED: Ends = frozenset({("SUCCESS", "returned")})
#: who interferes → the ends there may be
ENDS: dict[str, Ends] = {
    "limit": RETURNED | {("TIMEOUT", "timeout")},
    "cancel": RETURNED | {("CANCELED", "canceled")},
    "kill": RETURNED | {("FAILED", "killed_by_signal")},
}


def interfere(who: str, handle: Handle, pid: int) -> None:
    match who:
        case "cancel":
            handle.cancel(by="anna", reason="at the last moment")
        case "kill":
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def race(
    node: NodeUnderTest, who: str, runs: Path, rng: random.Random, spread: int
) -> list[Handle]:
    """Run the racers one by one on each worker, and strike each about when it returns."""
    least, most = (spread * bound for bound in BEFORE_S[who])
    length_s, told_s = (LENGTH_S + most, GRACE_S) if who == "cancel" else (LENGTH_S, 0.0)
    limits = {"timeout": LENGTH_S, "soft_timeout": LENGTH_S / 2} if who == "limit" else {}
    handles = []
    for _ in range(RACERS):
        s = length_s + (rng.uniform(least, most) if who == "limit" else 0.0)
        handles.append(
            node.submit("sleeps", spec={"max_retries": 0, **limits}, path=str(runs), s=s)
        )
    todo = {} if who == "limit" else {handle.task_id: handle for handle in handles}
    waiting: list[tuple[float, Handle, int]] = []
    while todo or waiting:
        for task_id, pid, at in begun(runs):
            if (handle := todo.pop(task_id, None)) is not None:
                before_s = told_s + rng.uniform(least, most)
                waiting.append((at + length_s - before_s, handle, pid))
        for one in [one for one in waiting if one[0] <= time.time()]:
            interfere(who, *one[1:])
            waiting.remove(one)
        time.sleep(0.002)
    return handles


def begun(runs: Path) -> list[tuple[str, int, float]]:
    """Return (task, pid of its worker, when) of all that have begun, as they wrote it down."""
    lines = runs.read_text().splitlines() if runs.exists() else []
    words = [line.split() for line in lines]
    return [(task_id, int(pid), float(at)) for task_id, _, pid, at in words]


@dataclass(frozen=True)
class Racecourse:
    """A node, where its tasks write that they have begun, and the ends that each of them may have.

    All races of one kind of store are run on it.
    """

    node: NodeUnderTest
    runs: Path
    expected: dict[str, Ends]


@pytest.fixture(scope="module", params=[FILE, SERVER_AND_REDIS])
def course(nursery: Any, request: pytest.FixtureRequest) -> Iterator[Racecourse]:
    node = nursery.make(APP, SETTINGS, store=request.param)
    node.start()
    yield Racecourse(node, node.root / "runs", {})
    assert nursery.close(node) == []


@pytest.mark.parametrize("who", ENDS)
def test_a_body_that_returns_at_that_moment(
    course: Racecourse, who: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one side always wins it was no race."""
    seed = chosen_seed()
    print("STORM_SEED =", seed)
    rng, node = random.Random(seed), course.node
    for spread in SPREADS:
        ids = [handle.task_id for handle in race(node, who, course.runs, rng, spread)]
        eventually(lambda: live(node) == 0, 30, "all have ended")
        course.expected.update(dict.fromkeys(ids, ENDS[who]))
        ends = Counter(str(view.state) for view in node.app.wait(ids, 5))
        if 0 < ends["SUCCESS"] < RACERS:
            break
    with capsys.disabled():
        print(f"[{who}, spread {spread}: {dict(ends)}]", end=" ")
    assert Account(node.query, course.expected, course.runs).violations() == []
    assert ends.total() == RACERS
    assert 0 < ends["SUCCESS"] < RACERS
    assert node.events("loop.failed") == []
    assert node.events("transition.refused") == []
    eventually(lambda: len(node.worker_pids()) == 4, 10, "all workers are there")
