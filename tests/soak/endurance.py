"""Very many no-op tasks with long limits, and forced kills among them: the node stays as it was.

Secret kept here: what is measured, when the node counts as warm, and how much it may differ.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness import NodeUnderTest, eventually
from storm import live

WORKERS = 4
ROUNDS = 40
#: The first quarter of the rounds is warm-up: caches, arenas and pools grow to their size.
WARM_ROUNDS = ROUNDS // 4
RSS_BAND = 0.05
#: Descriptors and threads may differ by what a connection of a pool makes, the rest by nothing.
LEEWAY = {
    "fds": 2, "threads": 2, "memfds": 0, "processes": 0, "temp_files": 0, "shm_files": 0,
}  # fmt: skip
CHUNK = 1000
PATIENCE_S = 300.0


@dataclass(frozen=True)
class Standing:
    """What an idle node holds."""

    rss_kib: int
    fds: int
    threads: int
    memfds: int
    processes: int
    temp_files: int
    shm_files: int


def standing(node: NodeUnderTest) -> Standing:
    """Measure a node, its zygote's descriptors and all that is below it included."""
    links = [link for pid in (node.pid, node.zygote_pid()) for link in _links(pid)]
    status = Path(f"/proc/{node.pid}/status").read_text()
    return Standing(
        rss_kib=int(status.split("VmRSS:")[1].split()[0]),
        fds=len(links),
        threads=int(status.split("Threads:")[1].split()[0]),
        memfds=sum("memfd:" in link for link in links),
        processes=len(node.processes()),
        temp_files=len(node.leftover_files()),
        shm_files=_segments(node),
    )


def _segments(node: NodeUnderTest) -> int:
    """Count what attempts of the stuck have left in /dev/shm; it is named after the task."""
    ids = {task_id for (task_id,) in node.query("SELECT task_id FROM tasks WHERE type = 'stuck'")}
    return sum(name.rsplit("-", 2)[0] in ids for name in os.listdir("/dev/shm"))


def _links(pid: int) -> list[str]:
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue  # closed in this moment
    return found


def grown(seen: Sequence[Standing]) -> list[str]:
    """Say what an idle node holds more (or less) of at the end than when it was warm."""
    found = []
    warm, last = seen[WARM_ROUNDS - 1], seen[-1]
    rss = statistics.median(one.rss_kib for one in seen[-WARM_ROUNDS:])
    if abs(rss / warm.rss_kib - 1) > RSS_BAND:
        found.append(f"grown: RSS was {warm.rss_kib} KiB when warm, is {rss:g} KiB")
    for name, leeway in LEEWAY.items():
        before, now = getattr(warm, name), getattr(last, name)
        if abs(now - before) > leeway:
            found.append(f"grown: {name} were {before} when warm, are {now}")
    return found


class Endurance:
    """Rounds of no-op tasks and forced kills, with a measurement after each."""

    SETTINGS: ClassVar[Mapping[str, object]] = {
        "workers": WORKERS, "autopsy_budget": 2, "cancel_grace": 0.2,
        "autopsy_keep_bytes": 20_000_000,
    }  # fmt: skip

    def __init__(self, noop: int, kills: int, tell: Callable[[str, int, int], None]) -> None:
        self._noop = noop
        self._kills = kills
        self._tell = tell
        self._seen: list[Standing] = []
        self._took_s = 0.0
        self._states: dict[str, int] = {}
        self._killed = 0.0

    def on(self, node: NodeUnderTest) -> None:
        """Do all of it on a running node."""
        began = time.monotonic()
        for number in range(1, ROUNDS + 1):
            noop = self._noop * number // ROUNDS - self._noop * (number - 1) // ROUNDS
            kills = self._kills * number // ROUNDS - self._kills * (number - 1) // ROUNDS
            self._round(node, noop, kills)
            self._seen.append(self._measured(node))
            self._tell("rounds", number, ROUNDS)
        self._took_s = time.monotonic() - began
        self._states = dict(node.query("SELECT state, count(*) FROM tasks GROUP BY state"))
        self._killed = node.metrics()["supervisor_kills_total", (("verdict", "canceled"),)]

    def _round(self, node: NodeUnderTest, noop: int, kills: int) -> None:
        hour = {"timeout": 3600.0, "soft_timeout": 3500.0}
        stuck = node.app.submit_many([{"type": "stuck", "priority": 9, **hour}] * kills)
        waiting = {handle.task_id for handle in stuck}

        def room() -> bool:
            self._strike(node, waiting)  # the stuck ones hold every worker until they are killed
            return live(node) < 5 * CHUNK

        for start in range(0, noop, CHUNK):
            size = min(CHUNK, noop - start)
            node.app.submit_many([{"type": "noop", **hour}] * size)
            eventually(room, PATIENCE_S, "room for more")
        deadline = time.monotonic() + PATIENCE_S
        while waiting and time.monotonic() < deadline:
            self._strike(node, waiting)
            time.sleep(0.05)
        eventually(lambda: live(node) == 0, PATIENCE_S, "the round is over")

    def _strike(self, node: NodeUnderTest, waiting: set[str]) -> None:
        """Cancel those that run: they do not listen, so each must be killed."""
        rows = node.query(
            "SELECT task_id FROM attempts WHERE outcome IS NULL AND started_at IS NOT NULL"
        )
        running = waiting & {task_id for (task_id,) in rows}
        if running:
            node.app.cancel(sorted(running), by="soak", reason="to be killed")
            waiting -= running

    def _measured(self, node: NodeUnderTest) -> Standing:
        eventually(lambda: len(node.worker_pids()) == WORKERS, 10, "all workers are back")
        eventually(lambda: not node.extra_processes(), 10, "no capture runs")
        time.sleep(0.2)
        return standing(node)

    def violations(self) -> list[str]:
        """Say everything that has grown, and every task that ended otherwise than it should."""
        found = grown(self._seen)
        expected = {"SUCCESS": self._noop, "CANCELED": self._kills}
        if self._states != {state: n for state, n in expected.items() if n}:
            found.append(f"lost: {expected} were to be, {self._states} are")
        if self._killed != self._kills:
            found.append(f"kills: {self._kills} were forced, the node counts {self._killed:g}")
        return found

    def figures(self) -> dict[str, Any]:
        """Return what was measured."""
        return {
            "noop": self._noop,
            "forced_kills": self._kills,
            "took_s": round(self._took_s, 1),
            "warm": asdict(self._seen[WARM_ROUNDS - 1]),
            "end": asdict(self._seen[-1]),
            "rss_kib": [one.rss_kib for one in self._seen],
        }
