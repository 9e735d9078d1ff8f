"""How our tasks end when they will not: six bodies, a grandchild, killed processes, a poison task.

The six bodies are told by a cancel or by a limit of two seconds. What counts as gone is the process
or the body's own last line, seen from outside; the store is asked only for what it has on record.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bench.peers import environment, roster
from bench.peers.bodies import HANGING
from bench.peers.scene import Event, Scene, staged
from supervisor.worker import tree

LIMIT_S = 2.0
SHORT_GRACE_S, USUAL_GRACE_S = 1.0, 10.0
REPEATS = 3
SETTLED_S = 60.0
Way = Literal["cancel", "limit", "kill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one body ended: seconds until it was gone, in which way, and the record afterwards.

    For a limit the seconds count from the body's first line, else from the act.
    """

    body: str
    way: str
    gone_s: float
    how: str
    record: dict[str, Any]

    def as_row(self) -> dict[str, Any]:
        """Return it as it stands in the file."""
        return asdict(self)


def measure(folder: Path) -> dict[str, Any]:
    """Return all rows, by name."""
    with _node(folder / "short", SHORT_GRACE_S) as scene:
        rows = {
            "cancel, grace 1 s": _six(scene, "cancel", REPEATS),
            "limit 2 s": _six(scene, "limit", REPEATS),
            "grandchild": [_grandchild(scene, way) for way in ("cancel", "limit", "kill")],
        }
    with _node(folder / "usual", USUAL_GRACE_S) as scene:
        rows["cancel, grace 10 s"] = _six(scene, "cancel", 1)
    return rows | {
        "worker killed": _killed(folder / "worker", "worker"),
        "node killed": _killed(folder / "node", "node"),
        "poison": _killed(folder / "poison", "poison"),
    }


@contextmanager
def _node(folder: Path, grace_s: float) -> Iterator[Scene]:
    with staged(roster.OURS, environment.programs(roster.OURS, folder), folder) as scene:
        scene.start_workers(("--cancel-grace", str(grace_s)))
        scene.ask("submit", body="stamp", what="ready")
        scene.began("ready")
        yield scene


def _six(scene: Scene, way: Way, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for body in HANGING:
        ends = [
            _end(scene, body.__name__, f"{body.__name__}-{way}-{turn}", way)
            for turn in range(repeats)
        ]
        middle = statistics.median(end.gone_s for end in ends)
        rows.append({**ends[-1].as_row(), "gone_s": middle, "all_s": [e.gone_s for e in ends]})
    return rows


def _end(scene: Scene, body: str, what: str, way: Way) -> Ending:
    # A limit without retries: the record then shows the ending itself.
    options = {"timeout": LIMIT_S, "max_retries": 0} if way == "limit" else {}
    task = scene.ask("submit", body=body, what=what, **options)
    event = scene.began(what)
    counts_from = event.at
    if way != "limit":
        time.sleep(0.5)
        counts_from = time.monotonic()
        scene.ask("cancel", task=task) if way == "cancel" else os.kill(event.pid, signal.SIGKILL)
    how = _gone(scene, event)
    gone_s = time.monotonic() - counts_from
    record = _record_after(scene, task, lambda record: record["state"] != "RUNNING")
    return Ending(body=body, way=way, gone_s=gone_s, how=how, record=record)


def _gone(scene: Scene, event: Event) -> str:
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        alive = tree.is_alive(event.pid)  # before the look: a body that leaves may end its process
        if scene.events(event.what, "left"):
            return "left by itself"
        if not alive:
            return "killed"
        time.sleep(0.004)
    raise TimeoutError(f"{event.what} is still there after {SETTLED_S:g} s")


def _record_after(scene: Scene, task: str, holds: Any, within_s: float = SETTLED_S) -> Any:
    deadline = time.monotonic() + within_s
    while not holds(record := scene.ask("record", task=task)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{task} stays {record}")
        time.sleep(0.05)
    return record


def _grandchild(scene: Scene, way: Way) -> dict[str, Any]:
    what = f"grandchild-{way}"
    end = _end(scene, "grandchild", what, way)
    (named,) = (e.name for e in scene.events(what) if e.name.startswith("child="))
    child = int(named.partition("=")[2])
    time.sleep(1)
    survives = tree.is_alive(child)
    if survives:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    return {**end.as_row(), "survives": survives}


def _killed(folder: Path, which: Literal["worker", "node", "poison"]) -> dict[str, Any]:
    """Kill what runs a task of four seconds, with every setting at its default."""
    with _node(folder, USUAL_GRACE_S) as scene:
        task = scene.ask("submit", body="nap", what="nap")
        scene.began("nap")
        time.sleep(1)
        killed_at = time.monotonic()
        if which == "poison":
            _kill_each(scene, task)
        elif which == "worker":
            os.kill(scene.events("nap")[-1].pid, signal.SIGKILL)
        else:
            _kill_node(scene)
        record = _record_after(
            scene, task, lambda record: record["state"] in ("SUCCESS", "FAILED", "TIMEOUT")
        )
        if which == "poison":
            time.sleep(30)  # it must stay so
        starts = [round(e.at - killed_at, 1) for e in scene.events("nap", "began")]
        return {"starts_s": starts, "ends": len(scene.events("nap", "done")), "record": record}


def _kill_node(scene: Scene) -> None:
    """SIGKILL to the node alone; a new one is started after a second, as by systemd."""
    (node,) = scene.leaders
    node.kill()
    node.wait()
    scene.leaders.clear()
    time.sleep(1)
    scene.start_workers()


def _kill_each(scene: Scene, task: str) -> None:
    """Kill the process of every run a moment after it began, until there is none more."""
    runs = 0
    while scene.ask("record", task=task)["state"] in ("PENDING", "RUNNING"):
        if len(starts := scene.events("nap", "began")) > runs:
            runs = len(starts)
            time.sleep(0.3)
            os.kill(starts[-1].pid, signal.SIGKILL)
        time.sleep(0.1)
