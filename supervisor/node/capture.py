"""Autopsies as processes: started, listened to, and never waited for.

Secret kept here: the command line of the autopsy program, its deadline, and the bundle of last
resort: if the full capture does not end in its share of the budget, it is killed and a second run
writes only the facts that the node itself knows. Answers come as `Captured`, always.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autopsy.collect.database import asking
from supervisor.clock import Clock
from supervisor.node import process
from supervisor.node.ear import Ear
from supervisor.node.lifeline import Keepsakes
from supervisor.node.port import Captured, Facts

#: Captures at once: they compete for the cores that the healthy tasks need.
AT_ONCE = 4
#: Of these, captures of what lives on: a kill finds a free place.
LETTING_LIVE_AT_ONCE = 1
#: Kept back from the budget for the bundle of last resort.
LAST_RESORT_S = 2.0
#: What a pipe holds at first; the facts are mostly less.
_PIPE_BYTES = 1 << 16
#: Longest answer: one line of JSON.
ANSWER_BYTES = 2**20
#: What the program may need beyond its own budget to close the bundle.
CLOSING_S = 0.5


@dataclass(frozen=True, slots=True)
class Patient:
    """Who is examined: pid and start time, and descriptors of its rings, output and dumps.

    The descriptors are this capture's own (they outlive the worker's line) and closed at its end.
    """

    worker_id: str
    pid: int
    born: int
    kept: Keepsakes


@dataclass(slots=True)
class _Wanted:
    """A capture that is asked for and perhaps running."""

    patient: Patient
    facts: Facts
    out: Path
    deadline: float
    running: subprocess.Popen[bytes] | None = None
    killed_at: float = 0.0
    facts_only: bool = False
    heard: bytearray = field(default_factory=bytearray)


class Captures:
    """All autopsies of a node."""

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        ear: Ear,
        done: Callable[[Captured], None],
        *,
        databases: Sequence[str] = (),
        end_statements: bool = True,
        memory_snapshot_bytes: int = 64 * 2**20,
    ) -> None:
        self._directory = directory
        # By the environment: anybody may read a command line.
        self._environment = {asking.VARIABLE: "\n".join(databases)} if databases else {}
        self._end_statements = end_statements
        self._memory_over = str(memory_snapshot_bytes)
        self._clock = clock
        self._ear = ear
        self._done = done
        self._waiting: deque[_Wanted] = deque()
        self._running: list[_Wanted] = []
        with suppress(OSError):  # tried, and told, again at each capture
            self._make_directory()

    def _make_directory(self) -> None:
        if not self._directory.is_dir():  # a look never waits for a disk that hangs; mkdir does
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def start(
        self, patient: Patient, facts: Facts, budget_s: float, *, facts_only: bool = False
    ) -> None:
        """Take evidence of this process; the answer comes within the budget.

        Before a kill it goes ahead of those that let live; one of the same worker is dropped.
        """
        out = self._directory / f"{facts.values['name']}.zip"
        deadline = self._clock.mono() + budget_s
        wanted = _Wanted(patient, facts, out, deadline, facts_only=facts_only)
        if facts.lets_live:
            self._waiting.append(wanted)
        else:
            self._go_ahead(wanted)
        self.turn()

    def _go_ahead(self, wanted: _Wanted) -> None:
        later = [one for one in self._waiting if one.facts.lets_live]
        first = [one for one in self._waiting if not one.facts.lets_live]
        dropped = [one for one in later if one.patient.worker_id == wanted.patient.worker_id]
        self._waiting = deque([*first, wanted, *(one for one in later if one not in dropped)])
        for one in dropped:
            self._answer(one, _busy(one, "it is examined before its kill instead"))

    def pids(self) -> set[int]:
        """Return the pids of the programs that run now."""
        return {wanted.running.pid for wanted in self._running if wanted.running}

    def close(self) -> None:
        """End the programs that still examine: after the node nobody would, if they hang."""
        for wanted in list(self._running):
            if wanted.running is not None and not wanted.facts_only:
                process.end_group(wanted.running)
                self._close(wanted)

    def turn(self) -> None:
        """Start what may start, end what is late, answer what is over."""
        now = self._clock.mono()
        for wanted in list(self._running):
            if wanted.running is not None and wanted.running.poll() is not None:
                self._finish(wanted)
            elif now >= wanted.killed_at:
                self._give_up(wanted)
        while self._waiting and self._may_begin(self._waiting[0]):
            self._begin(self._waiting.popleft())
        for wanted in [w for w in self._waiting if now >= w.deadline - LAST_RESORT_S]:
            self._waiting.remove(wanted)
            if wanted.facts.lets_live:
                self._answer(wanted, _busy(wanted, "other examinations took all the time"))
            else:
                self._begin_last_resort(wanted)

    def _may_begin(self, wanted: _Wanted) -> bool:
        letting_live = sum(one.facts.lets_live for one in self._running)
        held_back = wanted.facts.lets_live and letting_live >= LETTING_LIVE_AT_ONCE
        return len(self._running) < AT_ONCE and not held_back

    def shift(self, gap_s: float) -> None:
        """Move all deadlines by a time in which nobody could look."""
        for wanted in (*self._waiting, *self._running):
            wanted.deadline += gap_s
            wanted.killed_at += gap_s

    def next_deadline(self) -> float | None:
        """Return the moment at which `turn` must be called again at the latest."""
        moments = [wanted.killed_at for wanted in self._running]
        moments += [wanted.deadline - LAST_RESORT_S for wanted in self._waiting]
        return min(moments, default=None)

    def _begin_last_resort(self, wanted: _Wanted) -> None:
        wanted.facts_only = True
        self._begin(wanted)

    def _begin(self, wanted: _Wanted) -> None:
        now = self._clock.mono()
        wanted.killed_at = wanted.deadline - (0 if wanted.facts_only else LAST_RESORT_S)
        budget = max(0.2, wanted.killed_at - now - CLOSING_S)
        own = f"/proc/{os.getpid()}/fd"
        kept = wanted.patient.kept
        command = process.autopsy_command(
            *("capture", str(wanted.patient.pid), "--start-ticks", str(wanted.patient.born)),
            *("--out", str(wanted.out), "--budget", f"{budget:.2f}", "--facts", "-"),
            *("--log-ring", f"{own}/{kept.logs}", "--stack-ring", f"{own}/{kept.stacks}"),
            *("--output", f"{own}/{kept.output}", "--dump", f"{own}/{kept.dumps}"),
            *("--memory-over", self._memory_over),
        )
        facts = wanted.facts.values
        if "output_start" in facts:  # what the worker said for earlier tasks is theirs
            command += ["--output-start", str(facts["output_start"])]
            command += ["--begun-at", f"{facts['begun_at']:.6f}"]
        if wanted.facts_only:
            command.append("--facts-only")
        elif not wanted.facts.lets_live:
            command.append("--before-kill")
        if self._end_statements and not wanted.facts.lets_live:
            command.append("--end-statements")
        wanted.heard.clear()
        try:
            self._make_directory()
            wanted.running = process.start_tool(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                environment=self._environment,
            )
        except OSError as exc:
            self._answer(wanted, _failed(wanted, f"the autopsy program could not start: {exc}"))
            return
        self._running.append(wanted)
        self._feed(wanted)

    def _feed(self, wanted: _Wanted) -> None:
        running = wanted.running
        if running is None or running.stdin is None or running.stdout is None:
            return
        told = json.dumps(wanted.facts.values, default=str).encode()
        try:
            os.set_blocking(running.stdin.fileno(), False)
            if len(told) > _PIPE_BYTES:  # the params that must not be shown may be 256 KiB
                fcntl.fcntl(running.stdin.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)
            running.stdin.write(told)
            running.stdin.close()
        except (BrokenPipeError, BlockingIOError, PermissionError):
            pass  # it died or does not read: the deadline and the bundle of last resort follow
        os.set_blocking(running.stdout.fileno(), False)
        self._ear.listen(running.stdout.fileno(), lambda: self._hear(wanted))

    def _hear(self, wanted: _Wanted) -> None:
        running = wanted.running
        if running is None or running.stdout is None:
            return
        data = running.stdout.read()
        if data and len(wanted.heard) + len(data) > ANSWER_BYTES:
            self._ear.forget(running.stdout.fileno())
            wanted.killed_at = self._clock.mono()  # it raves: ended at the next turn
        elif data:
            wanted.heard += data
        elif data == b"":
            self._ear.forget(running.stdout.fileno())

    def _give_up(self, wanted: _Wanted) -> None:
        if wanted.running is not None:
            process.end_group(wanted.running)
        self._close(wanted)
        if wanted.facts_only:
            self._answer(wanted, _failed(wanted, "the autopsy program did not end in time"))
        else:
            self._begin_last_resort(wanted)

    def _finish(self, wanted: _Wanted) -> None:
        self._hear(wanted)
        code = wanted.running.returncode if wanted.running else None
        self._close(wanted)
        captured = _answered(wanted, f"the autopsy program exited with code {code}")
        not_done = captured.status in ("failed", "busy")
        if captured.status == "busy" and wanted.facts.lets_live:
            self._answer(wanted, captured)
        elif not_done and not wanted.facts_only:
            self._begin_last_resort(wanted)
        else:
            self._answer(wanted, captured)

    def _answer(self, wanted: _Wanted, captured: Captured) -> None:
        for fd in wanted.patient.kept:
            os.close(fd)
        self._done(captured)

    def _close(self, wanted: _Wanted) -> None:
        self._running.remove(wanted)
        running, wanted.running = wanted.running, None
        if running is None:
            return
        running.poll()  # one that was just killed is reaped as a stranger if not here
        for stream in (running.stdin, running.stdout):
            if stream is not None and not stream.closed:
                self._ear.forget(stream.fileno())
                stream.close()


def _answered(wanted: _Wanted, otherwise: str) -> Captured:
    """Read the line that the program printed; `otherwise` says what if there is none."""
    try:
        answer: dict[str, Any] = json.loads(bytes(wanted.heard))
        return Captured(
            worker_id=wanted.patient.worker_id,
            facts=wanted.facts,
            path=str(answer["path"]),
            status=str(answer["status"]),
            diagnosis=list(answer["diagnosis"]),
            ms=float(answer["ms"]),
            size_bytes=int(answer["bytes"]),
            why=str(answer.get("reason") or _missing(answer)),
            sessions=list(answer.get("terminated", [])),
        )
    except (ValueError, KeyError, TypeError):
        return _failed(wanted, otherwise)


def _missing(answer: dict[str, Any]) -> str:
    sections: dict[str, str] = answer.get("sections", {})
    return ", ".join(
        f"{name}: {status}" for name, status in sections.items() if status not in ("ok", "skipped")
    )


def _failed(wanted: _Wanted, why: str) -> Captured:
    return Captured(wanted.patient.worker_id, wanted.facts, "", "failed", [], 0.0, 0, why)


def _busy(wanted: _Wanted, why: str) -> Captured:
    return Captured(wanted.patient.worker_id, wanted.facts, "", "busy", [], 0.0, 0, why)
