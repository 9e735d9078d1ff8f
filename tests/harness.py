"""A real node under test: `supervisor run` as a subprocess with its own port and TMPDIR.

Secret kept here: how a node is started, found ready, killed and proven to have left nothing. Its
store is its own or, on a server, one that it shares with others (stores.py). Integration and chaos
tests reach it through the fixtures of conftest.py.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import stores
from prometheus_client.parser import text_string_to_metric_families

from autopsy.bundle import Bundle, read_bundle
from supervisor import App
from supervisor.client import Client, Handle
from supervisor.errors import StoreUnavailable
from supervisor.store import Reader, TaskView
from supervisor.store.view import AttemptView, NodeView
from supervisor.telemetry.events import EVENTS
from supervisor.worker import tree

REPOSITORY = Path(__file__).parents[1]
COMMAND = (sys.executable, "-m", "supervisor.cli")
ENDINGS = "tests.programs.tasks_endings:app"
#: In the environment of every node and so of all that descends from it by exec.
MARKER = "TASKS_UNDER_TEST"

#: Limits short enough for a test, long enough for two busy cores.
SHORT: Mapping[str, str] = {
    "SUPERVISOR_WORKERS": "2",
    "SUPERVISOR_METRICS_LISTEN": "127.0.0.1:0",
    "SUPERVISOR_NODE_NAME": "node-under-test",
    "SUPERVISOR_TIMEOUT": "30",
    "SUPERVISOR_CANCEL_GRACE": "1",
    "SUPERVISOR_AUTOPSY_BUDGET": "4",
    "SUPERVISOR_HEARTBEAT_INTERVAL": "0.5",
    "SUPERVISOR_HEARTBEAT_MISSES": "6",
    "SUPERVISOR_RETRY_BASE": "0.2",
    "SUPERVISOR_SWEEP_INTERVAL": "0.2",
    "SUPERVISOR_REQUEUE_SAFETY": "0.5",
    "SUPERVISOR_DRAIN_GRACE": "6",
    "SUPERVISOR_CHECKPOINT_BUDGET": "2",
    "SUPERVISOR_RELEASE_BUDGET": "2",
    "SUPERVISOR_EXIT_BUDGET": "1",
    "SUPERVISOR_RESTART_INTENSITY": "50/60",
}

#: On a shared store: others take over within seconds.
SHORT_LEASE: Mapping[str, object] = {"lease": 3, "cancel_grace": 0.5, "autopsy_budget": 1}
#: The same where nothing waits for the end of a lease: the dead are seen to be dead on this host.
LONGER_LEASE: Mapping[str, object] = {"lease": 15, "cancel_grace": 0.5, "autopsy_budget": 3}

T = TypeVar("T")
#: from, to, operator, reason
Move = tuple[str | None, str, str, str]


def eventually(cond: Callable[[], T], timeout: float = 10.0, what: str = "") -> T:
    """Return the first true answer of `cond`; fail when there is none in time."""
    began = time.monotonic()
    while True:
        answer = cond()
        if answer:
            return answer
        waited = time.monotonic() - began
        if waited > timeout:
            raise AssertionError(
                f"not within {timeout:g} s: {what or cond}; last answer {answer!r}"
            )
        # To look takes CPU from what is waited for: the longer it takes, the more seldom.
        time.sleep(min(0.1, 0.02 + waited / 20))


@dataclass(frozen=True)
class Seen:
    """A process as somebody wrote it down: pid and start time."""

    pid: int
    ticks: int

    @property
    def alive(self) -> bool:
        return tree.is_alive(self.pid) and tree.start_ticks(self.pid) == self.ticks


def seen(path: Path) -> list[Seen]:
    """Read the processes that a task wrote down, one `pid ticks` a line."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [Seen(*map(int, line.split())) for line in lines]


def none_lives(path: Path, timeout: float = 3.0) -> None:
    """Require that something was written down and that all of it is gone."""
    written = seen(path)
    assert written, f"nothing was written to {path}"
    eventually(lambda: not [one for one in written if one.alive], timeout, "processes are gone")


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _cwd(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _cmdline(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""


class NodeUnderTest:
    """One node, the place of its tasks and everything it wrote."""

    def __init__(
        self,
        root: Path,
        app: str = ENDINGS,
        pythonpath_extra: Path | None = None,
        prefix: Sequence[str] = (),
        place: stores.Place | None = None,
        **settings: object,
    ) -> None:
        self.root = root
        self.app_name = app
        #: What the command line begins with.
        self.prefix = prefix
        self.mark = f"{os.getpid()}-{root.name}"
        self.tmp = root / "tmp"
        self.tmp.mkdir(mode=0o700, parents=True)
        self.place = place or stores.File(root / "tasks.db")
        self.log = root / "node.log"
        self.process: subprocess.Popen[bytes] | None = None
        is_beside = self.is_alone and self.store_path.parent == root
        named = {f"SUPERVISOR_{name.upper()}": str(value) for name, value in settings.items()}
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SUPERVISOR_")},
            **SHORT,
            **({} if is_beside else {"SUPERVISOR_AUTOPSY_DIR": str(root / "autopsies")}),
            **named,
            "SUPERVISOR_STORE": self.url,
            "SUPERVISOR_QUEUE": self.place.queue,
            "TMPDIR": str(self.tmp),
            "PYTHONPATH": f"{REPOSITORY}:{pythonpath_extra or ''}".rstrip(":"),
            "PYTHONDONTWRITEBYTECODE": "1",
            MARKER: self.mark,
        }
        self.name = self.env["SUPERVISOR_NODE_NAME"]
        self.app = self._new_app()

    def _new_app(self) -> App:
        if self.is_alone:
            return App(store=self.url)
        return App(store=self.url, queue=self.place.queue)

    # -- its store

    @property
    def is_alone(self) -> bool:
        """Say whether no other node may use its store."""
        return isinstance(self.place, stores.File)

    @property
    def url(self) -> str:
        """Return the address of its store."""
        return self.place.url

    @property
    def store_path(self) -> Path:
        """Return the file of its store."""
        assert isinstance(self.place, stores.File)
        return self.place.path

    @property
    def database(self) -> stores.Database:
        """Return the database that is its store."""
        assert isinstance(self.place, stores.Database)
        return self.place

    def move_store(self, path: Path) -> None:
        """Give a node that has not been started another file for its store."""
        self.place = stores.File(path)
        self.env["SUPERVISOR_STORE"] = self.url
        self.app = self._new_app()

    # -- life

    def start(self, *, wait: bool = True) -> NodeUnderTest:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, *COMMAND, "run", self.app_name],
                cwd=self.root, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout: float = 60.0) -> None:
        def ready() -> bool:
            if self.process is None or self.process.poll() is not None:
                raise AssertionError(f"the node ended early:\n{self.log_text()}")
            return self.get("/readyz")[0] == 200

        eventually(ready, timeout, f"the node is ready; it says {self.log_text()[-1500:]}")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL the node and collect it; nothing else is touched."""
        self.signal(signal.SIGKILL)
        self.wait_exit(5)

    def wait_exit(self, timeout: float = 20.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout)

    def stop(self, timeout: float = 20.0) -> int:
        """SIGTERM, and return the exit code."""
        if self.running:
            self.signal(signal.SIGTERM)
        return self.wait_exit(timeout)

    def restart(self, *, wait: bool = True) -> None:
        """Start again on the same store, after a kill or a stop."""
        if self.running:
            assert self.stop() == 0
        self.start(wait=wait)

    def close(self) -> None:
        """End whatever is left, whatever happened, and close our own files."""
        try:
            if self.running:
                self.signal(signal.SIGTERM)
                try:
                    self.wait_exit(15)
                except subprocess.TimeoutExpired:
                    self.signal(signal.SIGKILL)
                    self.wait_exit(5)
        finally:
            if self.client_used:
                self.app.client.close()

    @property
    def client_used(self) -> bool:
        return bool(self.app._clients)

    def end_strays(self) -> list[str]:
        """SIGKILL what carries our mark while no node runs; return what it was."""
        strays = [] if self.running else self.processes()
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return [f"{pid}: {_cmdline(pid)}" for pid in strays]

    # -- processes and files

    def processes(self) -> list[int]:
        """Return the living processes that descend from our nodes (by environment or directory)."""
        mark = f"{MARKER}={self.mark}".encode()
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            pid = int(name)
            marked = mark in _environ(pid).split(b"\0") or _cwd(pid).startswith(str(self.root))
            if marked and tree.is_alive(pid):
                found.append(pid)
        return found

    def node_id(self) -> str:
        return next(one.node_id for one in self.reader.nodes() if self._is_us(one))

    def _is_us(self, node: NodeView) -> bool:
        return node.pid == self.pid and node.node_name == self.name

    def worker_pids(self) -> list[int]:
        """Return the pids of the workers that live, as the store has them (if it has us)."""
        registered = [one.node_id for one in self.reader.nodes() if self._is_us(one)][:1]
        found = [worker for node_id in registered for worker in self.reader.workers(node_id)]
        return [worker.pid for worker in found if worker.ended_at is None]

    def zygote_pid(self) -> int:
        """Return the pid of the zygote of the running node."""
        below = [p for p in tree.children(self.pid) if "worker.zygote" in _cmdline(p)]
        workers = set(self.worker_pids())
        (pid,) = [p for p in below if p not in workers]
        return pid

    def extra_processes(self) -> list[str]:
        """Return what lives below a running node that does not belong to it when it is idle."""
        known = {self.pid, *self.worker_pids()}
        words = {pid: _cmdline(pid) for pid in self.processes() if pid not in known}
        own = ("worker.zygote", "worker.watchdog")
        return [f"{pid}: {text}" for pid, text in words.items() if not any(x in text for x in own)]

    @property
    def own_processes(self) -> int:
        """How many processes an idle node is beside its workers: itself, zygote and watchdog."""
        return 2 if self.is_alone else 3

    def leftover_files(self) -> list[str]:
        """Return the files below TMPDIR that a stopped node should have removed."""
        return sorted(str(p.relative_to(self.tmp)) for p in self.tmp.rglob("*") if not p.is_dir())

    # -- talking

    @property
    def client(self) -> Client:
        return self.app.client

    @property
    def reader(self) -> Reader:
        return self.app.client.reader

    def cli(self, *args: str, timeout: float = 30.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *args],
            cwd=self.root, env=self.env, timeout=timeout,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def cli_json(self, *args: str) -> Any:
        answer = self.cli(*args, "--json")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    @property
    def listen(self) -> str:
        return next((one.listen for one in self.reader.nodes() if self._is_us(one)), "")

    def get(self, path: str) -> tuple[int, str]:
        """Return (status, body) of the node's endpoint; (0, why) when nobody answers."""
        try:
            listen = self.listen
        except StoreUnavailable as exc:
            return 0, str(exc)
        if not listen:
            return 0, "not registered yet"
        try:
            with urllib.request.urlopen(f"http://{listen}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()
        except OSError as exc:
            return 0, str(exc)

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Scrape and parse /metrics: (sample name, sorted labels) → value."""
        status, body = self.get("/metrics")
        assert status == 200
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(body)
            for sample in family.samples
        }

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """Return the node's log lines that are events (of this name, which must be one it logs)."""
        assert name is None or EVENTS[name].level >= logging.INFO, f"a node never logs {name}"
        lines = [json.loads(x) for x in self.log_text().splitlines() if x.startswith("{")]
        return [line for line in lines if name is None or line.get("event") == name]

    # -- tasks

    def submit(
        self, type: str, /, *, spec: Mapping[str, Any] | None = None, **params: Any
    ) -> Handle:
        return self.app.submit({"type": type, "params": params, **(spec or {})})

    def run(self, type: str, /, *, timeout: float = 30.0, **params: Any) -> TaskView:
        """Submit and wait for the end."""
        return self.submit(type, **params).wait(timeout)

    def attempts(self, task_id: str) -> list[AttemptView]:
        return self.reader.attempts(task_id)

    def endings(self, task_id: str) -> list[tuple[str | None, str | None, str | None, bool]]:
        """Return (outcome, reason, proof, effects unknown) of each attempt."""
        return [
            (None if a.outcome is None else str(a.outcome), a.reason, a.proof, a.effects_unknown)
            for a in self.attempts(task_id)
        ]

    def moves(self, task_id: str) -> list[Move]:
        """Return the audited moves; the supervisor's own operator reads `node`."""
        return [
            (
                None if line.from_state is None else str(line.from_state),
                str(line.to_state),
                self._who(line.operator),
                line.reason,
            )
            for line in self.app.history(task_id)
            if line.to_state is not None
        ]

    def notes(self, task_id: str) -> list[str]:
        """Return the reasons of the notes in the audit trail, in order."""
        return [line.reason for line in self.app.history(task_id) if line.to_state is None]

    def _who(self, operator: str) -> str:
        own = {node.node_id for node in self.reader.nodes()}
        return "node" if operator in own | {"supervisor"} else operator

    def started(self, handle: Handle, timeout: float = 30.0) -> TaskView:
        """Wait until the task's first line has run."""

        def begun() -> TaskView | None:
            view = handle.view()
            return view if view.started_at is not None else None

        return eventually(begun, timeout, f"{handle.task_id} has started")

    def captures_of(self, pid: int) -> list[int]:
        """Return the autopsy programs that look at a process."""
        words = f"capture {pid} "
        return [one for one in self.processes() if words in _cmdline(one)]

    def bundle(self, task_id: str) -> Bundle:
        """Return the one bundle of a task, read back with its checksums verified."""
        (record,) = self.reader.autopsies(task_id)
        assert record.status in ("complete", "partial"), record
        return read_bundle(Path(record.path))

    def store_locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold the write lock of the store."""
        return self.place.locked()

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read rows straight from the store, past our own reader."""
        return self.place.query(sql, *values)

    def forget_files(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def loop_never_waited(node: NodeUnderTest) -> None:
    """Require that the loop has turned all the time: hardly a turn came 100 ms late.

    A machine that does other things as well delays a few; a loop that waited would be late at each.
    """
    figures = node.metrics()
    turns = figures["supervisor_loop_lag_seconds_count", ()]
    in_time = figures["supervisor_loop_lag_seconds_bucket", (("le", "0.1"),)]
    assert turns - in_time <= max(5, 0.05 * turns), f"{turns - in_time} of {turns} turns were late"
    assert node.events("loop.lagged") == []
    assert node.events("loop.failed") == []


def ran_s(attempt: AttemptView) -> float:
    """Return how long an attempt ran, by what is stored of it."""
    assert attempt.started_at is not None
    assert attempt.ended_at is not None
    return (attempt.ended_at - attempt.started_at).total_seconds()


PENDING, RUNNING, SUCCESS = "PENDING", "RUNNING", "SUCCESS"
FAILED, CANCELED, TIMEOUT = "FAILED", "CANCELED", "TIMEOUT"
SUBMITTED_BY = "tester"


def begun(by: str = "unknown") -> list[Move]:
    """The moves every run begins with."""
    return [(None, PENDING, by, "submitted"), (PENDING, RUNNING, "node", "claimed")]


#: The fixture `start_node`.
Start = Callable[..., NodeUnderTest]
#: Runs a test twice: its nodes are on a file, and on PostgreSQL with Redis.
on_both_stores = pytest.mark.parametrize(
    "start_node", [stores.FILE, stores.SERVER_AND_REDIS], indirect=True
)
on_servers = pytest.mark.parametrize("start_node", [stores.SERVER_AND_REDIS], indirect=True)
