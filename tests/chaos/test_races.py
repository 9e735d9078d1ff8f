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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from harness import NodeUnderTest, Start, eventually, on_both_stores
from invariants import Account, Ends
from storm import APP, SETTINGS, chosen_seed, live

from supervisor.client import Handle

#: Who comes first must be open, as it is on a machine that does little else.
pytestmark = pytest.mark.alone

RACES, RACERS, LENGTH_S = 3, 24, 0.4
#: A canceled one is killed after its grace and its evidence: it is told so much earlier.
TOLD_LENGTH_S, GRACE_S = 1.8, 0.3
#: Strikes fall so long before the body returns.
BEFORE_S = {"limit": (-0.03, 0.03), "cancel": (GRACE_S, GRACE_S + 1.4), "kill": (-0.03, 0.03)}
RETURNED: Ends = frozenset({("SUCCESS", "returned")})
#: who interferes → the ends there may be
ENDS: dict[str, Ends] = {
    "limit": RETURNED | {("TIMEOUT", "timeout")},
    "cancel": RETURNED | {("CANCELED", "canceled")},
    "kill": RETURNED | {("FAILED", "killed_by_signal")},
}


def interfere(node: NodeUnderTest, who: str, handle: Handle) -> None:
    match who:
        case "cancel":
            handle.cancel(by="anna", reason="at the last moment")
        case "kill":
            with suppress(ProcessLookupError):
                os.kill(node.attempts(handle.task_id)[0].pid, signal.SIGKILL)


def race(node: NodeUnderTest, who: str, runs: Path, rng: random.Random) -> list[Handle]:
    """Run the racers one by one on each worker, and strike each about when it returns."""
    handles = []
    length_s = TOLD_LENGTH_S if who == "cancel" else LENGTH_S
    for _ in range(RACERS):
        s = length_s + (rng.uniform(*BEFORE_S[who]) if who == "limit" else 0.0)
        limits = {"timeout": LENGTH_S, "soft_timeout": LENGTH_S / 2} if who == "limit" else {}
        handles.append(
            node.submit("sleeps", spec={"max_retries": 0, **limits}, path=str(runs), s=s)
        )
    waiting: list[tuple[float, Callable[[], None]]] = []
    begun: set[str] = set()
    while who != "limit" and (live(node) or waiting):
        now = time.time()
        for handle in handles:
            started_at = handle.view().started_at if handle.task_id not in begun else None
            if started_at is not None:
                begun.add(handle.task_id)
                at = started_at.timestamp() + length_s - rng.uniform(*BEFORE_S[who])
                waiting.append((at, lambda h=handle: interfere(node, who, h)))  # type: ignore[misc]
        for at, strike in [one for one in waiting if one[0] <= now]:
            strike()
            waiting.remove((at, strike))
        time.sleep(0.002)
    return handles


@on_both_stores
@pytest.mark.parametrize("who", ENDS)
def test_a_body_that_returns_at_that_moment(
    start_node: Start, tmp_path: Path, who: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one side always wins it was no race: a busy machine may need more than one."""
    seed = chosen_seed()
    print("STORM_SEED =", seed)
    rng = random.Random(seed)
    node = start_node(APP, **SETTINGS)
    runs = tmp_path / "runs"
    expected: dict[str, Ends] = {}
    for _ in range(RACES):
        ids = [handle.task_id for handle in race(node, who, runs, rng)]
        eventually(lambda: live(node) == 0, 30, "all have ended")
        expected |= dict.fromkeys(ids, ENDS[who])
        ends = Counter(str(view.state) for view in node.app.wait(ids, 5))
        if 0 < ends["SUCCESS"] < RACERS:
            break
    with capsys.disabled():
        print(f"[{who}: {dict(ends)}]", end=" ")
    assert Account(node.query, expected, runs).violations() == []
    assert ends.total() == RACERS
    assert 0 < ends["SUCCESS"] < RACERS
    assert node.events("loop.failed") == []
    assert node.events("transition.refused") == []
    eventually(lambda: len(node.worker_pids()) == 4, 10, "all workers are there")
