"""Failpoints: kill a program at one exact point of its work, without a line of it in the product.

    python -m tests.programs.failpoints POINT -- python -m supervisor.cli run MODULE:app

wraps one public function of the product in this process alone and runs the rest as it would run.
At the chosen pass the process writes the point's name to `failpoint` in the directory it was
started in and SIGKILLs itself. Points of a capture go on into the autopsy program that a node
starts: there the node is killed first and then the program, as a power cut would. Points of workers
and zygotes are armed by the app (`tasks_mortal`), which they import; there the first one dies.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Any

FIRED = "failpoint"
#: Says of one call whether it counts, from its result (None before it) and its arguments.
Counts = Callable[[Any, tuple[Any, ...]], bool]


class Moment(StrEnum):
    """When, relative to the call."""

    BEFORE = "before"
    AFTER = "after"
    #: After the commit of the transaction that the call (a verb of the ledger) was part of.
    COMMITTED = "committed"


class Victim(StrEnum):
    """Whose process holds the point."""

    NODE = "node"
    #: The node that follows one that was killed: it dies while it puts things right.
    SUCCESSOR = "successor"
    #: A node that was told to stop.
    STOPPING = "stopping"
    SUBMITTER = "submitter"
    CAPTURE = "capture"
    #: A worker or a zygote: their node lives on.
    WORKER = "worker"


def any_call(_result: Any, _args: tuple[Any, ...]) -> bool:
    return True


def fruitful(result: Any, _args: tuple[Any, ...]) -> bool:
    return bool(result)


@dataclass(frozen=True, slots=True)
class Point:
    """One point: a public function, a moment, and which passes count."""

    row: str
    target: str
    moment: Moment
    counts: Counts = any_call
    nth: int = 1
    victim: Victim = Victim.NODE


# -- which calls count


def _settled(state: str, path_length: int) -> Counts:
    """An ending was written that led to this state over so many moves."""

    def counts(result: Any, _args: tuple[Any, ...]) -> bool:
        found = [s for s in result or () if s is not None]
        return any(str(s.state) == state and len(s.path) == path_length for s in found)

    return counts


def _reason(*names: str) -> Counts:
    def counts(result: Any, _args: tuple[Any, ...]) -> bool:
        return any(s is not None and s.reason in names for s in result or ())

    return counts


def _with_children(_result: Any, args: tuple[Any, ...]) -> bool:
    return any(ending.children for ending in args[1])


def _of_a_task(_result: Any, args: tuple[Any, ...]) -> bool:
    return any(spec.parent_id for spec in args[1])


def _is_kind(name: str, index: int) -> Counts:
    return lambda _result, args: type(args[index]).__name__ == name


def _results_in(name: str) -> Counts:
    return lambda result, _args: type(result).__name__ == name


def _capturing(_result: Any, args: tuple[Any, ...]) -> bool:
    return "capture" in args[0]


def _partial(_result: Any, args: tuple[Any, ...]) -> bool:
    return str(args[0]).endswith(".partial")


def _stops(_result: Any, args: tuple[Any, ...]) -> bool:
    return bool(args[1] == signal.SIGSTOP)


def _violent(result: Any, _args: tuple[Any, ...]) -> bool:
    return result is not None and result.status.code != 0


# -- the table

_TX = "supervisor.store.ledger:Transaction"
_NODE = "supervisor.node"


def _points() -> Iterator[tuple[str, Point]]:
    yield from _written("submit", f"{_TX}.submit", victim=Victim.SUBMITTER)
    bell = "supervisor.queue.socket:SocketBell.ring"
    yield "submit.rung", Point("submit", bell, Moment.AFTER, victim=Victim.SUBMITTER)
    yield from _written("child", f"{_TX}.submit", _of_a_task, row="submit")
    yield from _written("publish", f"{_TX}.publish", fruitful, row="relay")
    yield from _spawning()
    yield from _claiming()
    yield from _ending_by_force()
    yield from _finishing()
    yield from _taking_over()
    yield from _in_the_child()
    yield from _among_many()


def _written(
    name: str,
    target: str,
    counts: Counts = any_call,
    *,
    row: str = "",
    nth: int = 1,
    victim: Victim = Victim.NODE,
) -> Iterator[tuple[str, Point]]:
    """A verb of the ledger: in the open transaction, and after its commit."""
    for word, moment in (("written", Moment.AFTER), ("committed", Moment.COMMITTED)):
        yield f"{name}.{word}", Point(row or name, target, moment, counts, nth, victim)


def _spawning() -> Iterator[tuple[str, Point]]:
    row = "spawn"
    start = f"{_NODE}.process:start_zygote"
    importing: Counts = lambda _result, args: "--describe" not in args  # noqa: E731
    yield "boot.started", Point(row, start, Moment.AFTER, importing)
    yield "birth.asked", Point(row, f"{_NODE}.pool:ProcessPool.birth", Moment.AFTER, nth=2)
    yield "birth.known", Point(row, f"{_NODE}.staffing:Staffing.born", Moment.BEFORE)
    ready = f"{_NODE}.listening:Listening.said"
    yield "worker.ready", Point(row, ready, Moment.BEFORE, _is_kind("Ready", 2))
    yield from _written("worker", f"{_TX}.record_workers", row=row)


def _claiming() -> Iterator[tuple[str, Point]]:
    row = "claim"
    yield from _written("claim", f"{_TX}.claim", fruitful)
    accept = f"{_NODE}.dispatching:Dispatching.accept"
    claimed: Counts = lambda _result, args: bool(args[1].claims)  # noqa: E731
    yield "claim.heard", Point(row, accept, Moment.BEFORE, claimed)
    row, assign = "assign", f"{_NODE}.pool:ProcessPool.assign"
    yield "assign.before", Point(row, assign, Moment.BEFORE)
    yield "assign.sent", Point(row, assign, Moment.AFTER)
    yield from _written("started", f"{_TX}.started", row="run")
    yield from _written("checkpoint", f"{_TX}.checkpoint", fruitful, row="run")


def _ending_by_force() -> Iterator[tuple[str, Point]]:
    row, listening = "verdict", f"{_NODE}.listening:Listening"
    send = f"{_NODE}.pool:ProcessPool.send"
    yield "interrupt.sent", Point(row, send, Moment.AFTER, _is_kind("Interrupt", 2))
    yield "verdict.reached", Point(row, f"{_NODE}.closing:Closing.doom", Moment.BEFORE)
    start = f"{_NODE}.process:start_tool"
    yield "capture.started", Point(row, start, Moment.AFTER, _capturing)
    for word, moment in (("partial", Moment.BEFORE), ("renamed", Moment.AFTER)):
        rename = "pathlib:Path.replace"
        yield f"bundle.{word}", Point(row, rename, moment, _partial, victim=Victim.CAPTURE)
    yield "bundle.heard", Point(row, f"{listening}.captured", Moment.BEFORE)
    yield from _written("bundle", f"{_TX}.record_autopsy", row=row)

    row, process = "terminate", f"{_NODE}.process"
    tree = "supervisor.worker.tree"
    yield "kill.before", Point(row, f"{process}:kill_worker_tree", Moment.BEFORE)
    yield "kill.stopped", Point(row, f"{tree}:send_signal", Moment.AFTER, _stops)
    yield "kill.below", Point(row, f"{tree}:kill_descendants", Moment.AFTER, fruitful)
    yield "kill.done", Point(row, f"{process}:kill_worker_tree", Moment.AFTER)
    yield "reap.before", Point(row, f"{process}:reap", Moment.BEFORE)
    yield "reap.after", Point(row, f"{process}:reap", Moment.AFTER, _violent)
    yield "scratch.removing", Point(row, f"{_NODE}.pool:ProcessPool.forget", Moment.AFTER)


def _finishing() -> Iterator[tuple[str, Point]]:
    row, finish = "finish", f"{_TX}.finish"
    said = f"{_NODE}.listening:Listening.said"
    yield "finish.heard", Point(row, said, Moment.BEFORE, _is_kind("Finished", 2))
    yield from _written("finish", finish)
    yield from _written("finish.children", finish, _with_children, row=row)
    yield from _written("finish.retry", finish, _settled("PENDING", 3), row=row)
    yield from _written("finish.timeout", finish, _settled("TIMEOUT", 2), row=row)
    yield from _written("finish.cancel", finish, _settled("CANCELED", 2), row=row)
    told = f"{_NODE}.reporting:Reporting.endings"
    yield "finish.told", Point(row, told, Moment.BEFORE)


def _taking_over() -> Iterator[tuple[str, Point]]:
    row, end_marked = "take over", f"{_NODE}.process:end_marked"
    after = Victim.SUCCESSOR
    yield "orphans.before", Point(row, end_marked, Moment.BEFORE, victim=after)
    yield "orphans.ended", Point(row, end_marked, Moment.AFTER, victim=after)
    yield from _written("node.ended", f"{_TX}.end_node", row=row, victim=after)
    yield from _written("node.born", f"{_TX}.register_node", row=row, victim=after)
    hear = f"{_NODE}.mending:Mending.hear"
    some: Counts = lambda _result, args: bool(getattr(args[1], "orphans", ()))  # noqa: E731
    yield "sweep.heard", Point(row, hear, Moment.BEFORE, some, victim=after)
    yield from _written("sweep", f"{_TX}.finish", _reason("node_lost"), row=row, victim=after)

    row, stopping = "stop", Victim.STOPPING
    leave = f"{_NODE}.leaving:Leaving.stop"
    yield "stop.heard", Point(row, leave, Moment.AFTER, victim=stopping)
    yield from _written(
        "stop.requeue", f"{_TX}.finish", _reason("shutdown"), row=row, victim=stopping
    )
    yield from _written("stop.ended", f"{_TX}.end_node", row=row, victim=stopping)


def _among_many() -> Iterator[tuple[str, Point]]:
    """What only a node does that shares its store with others."""
    ring = "supervisor.queue.ringer:Ringer.ring"
    yield "submit.called", Point("submit", ring, Moment.AFTER, victim=Victim.SUBMITTER)
    yield "publish.called", Point("relay", ring, Moment.AFTER)
    yield from _written("renew", f"{_TX}.renew", fruitful, row="lease", nth=2)
    yield from _written("lead", f"{_TX}.lead", fruitful, row="lease")


def _in_the_child() -> Iterator[tuple[str, Point]]:
    wire, after = "supervisor.worker.wire", Moment.AFTER
    for name, target, moment, counts in (
        ("zygote.read", f"{wire}:Decoder.decode", after, _results_in("Birth")),
        ("zygote.telling", f"{wire}:encode", after, _is_kind("Born", 0)),
        ("ready.framed", f"{wire}:frame", after, _is_kind("Ready", 0)),
        ("assign.read", f"{wire}:Decoder.decode", after, _results_in("Assign")),
        ("body.begun", "supervisor.worker.vitals:Vitals.begin", after, any_call),
        ("checkpoint.framed", f"{wire}:frame", after, _is_kind("Checkpoint", 0)),
        ("child.framed", f"{wire}:frame", after, _is_kind("SubmitChild", 0)),
        ("body.done", "supervisor.worker.main:run_body", after, any_call),
        ("report.framed", f"{wire}:frame", after, _is_kind("Finished", 0)),
        ("report.sent", "supervisor.worker.surroundings:Surroundings.worn_out", after, any_call),
        ("leaving.framed", f"{wire}:frame", after, _is_kind("Leaving", 0)),
    ):
        yield f"child: {name}", Point("child", target, moment, counts, victim=Victim.WORKER)


POINTS: dict[str, Point] = dict(_points())


# -- arming


class Armed:
    """A point, armed in this process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.point = POINTS[name]
        self._marker = Path.cwd() / FIRED
        self._passes = 0
        self._lock = threading.Lock()
        self._pending = threading.local()

    def arm(self) -> None:
        """Wrap the function; everything of the product that calls it by its name passes here."""
        owner, attribute = _resolve(self.point.target)
        setattr(owner, attribute, self._wrapped(getattr(owner, attribute)))
        if self.point.moment is Moment.COMMITTED:
            from supervisor.store.ledger import Ledger

            self._follow_commits(Ledger)

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        before = self.point.moment is Moment.BEFORE

        @wraps(call)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if before and self._counts(None, args):
                self._die()
            result = call(*args, **kwargs)
            if not before and self._counts(result, args):
                if self.point.moment is Moment.COMMITTED:
                    self._pending.due = True
                else:
                    self._die()
            return result

        return wrapper

    def _counts(self, result: Any, args: tuple[Any, ...]) -> bool:
        if not self.point.counts(result, args):
            return False
        with self._lock:
            self._passes += 1
            return self._passes == self.point.nth

    def _follow_commits(self, ledger: Any) -> None:
        inner = ledger.transaction

        @contextmanager
        def transaction(itself: Any) -> Iterator[Any]:
            with inner(itself) as tx:
                yield tx
            if getattr(self._pending, "due", False):
                self._die()

        ledger.transaction = transaction

    def _die(self) -> None:
        """Die; one of several that are armed alike lives on if another one has died before it."""
        try:
            with self._marker.open("x") as marker:
                marker.write(f"{self.name} {os.environ.get('SUPERVISOR_ATTEMPT', '')}")
        except FileExistsError:
            return
        if self.point.victim is Victim.CAPTURE:
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def _resolve(target: str) -> tuple[Any, str]:
    module, _, path = target.partition(":")
    *owners, attribute = path.split(".")
    owner: Any = importlib.import_module(module)
    for name in owners:
        owner = getattr(owner, name)
    return owner, attribute


def armed(name: str, *command: str) -> list[str]:
    """Return the command line that runs `python -m …` with this point armed."""
    return [sys.executable, "-m", "tests.programs.failpoints", name, "--", *command]


def _pass_on(name: str) -> None:
    """Arm the autopsy programs that this node starts, not the node."""
    from supervisor.node import process

    plain = process.autopsy_command

    @wraps(plain)
    def command(*arguments: str) -> list[str]:
        words = plain(*arguments)
        return armed(f"{name}!", *words) if arguments[0] == "capture" else words

    process.autopsy_command = command


def _main() -> None:
    name, _, _, _, module, *arguments = sys.argv[1:]
    if POINTS[name.rstrip("!")].victim is Victim.CAPTURE and not name.endswith("!"):
        _pass_on(name)
    else:
        Armed(name.rstrip("!")).arm()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
