"""The life of a worker process: take an assignment, run its body, report, take the next.

Two threads. The main thread runs bodies, so that an interrupt reaches them; the pulse thread beats,
and hears the node (interrupts, answers). Invariants: an interrupt is raised only inside the body of
the attempt it names; a frame on the wire is never torn by one; a worker that was interrupted is not
used again (state it left behind cannot be known). Exit codes: 0 left in order, 3 boot failed, 4 app
import failed, 5 the node vanished.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from autopsy import agent
from autopsy.signals import INTERRUPT
from supervisor.clock import mono_ns
from supervisor.errors import (
    Interruption,
    Refused,
    ShutdownRequested,
    SoftTimeout,
    TaskCanceled,
    WireBroken,
)
from supervisor.worker import tree, wire
from supervisor.worker.body import BodyEnd, run_body
from supervisor.worker.vitals import Vitals

if TYPE_CHECKING:
    from supervisor.app import App

EXIT_OK, EXIT_BOOT_FAILED, EXIT_IMPORT_FAILED, EXIT_NODE_GONE = 0, 3, 4, 5

#: An interrupt is sent again this often until the body has seen it.
INTERRUPT_AGAIN_S = 1.0
#: A task waits this long for the node's answer to a task it submits.
SUBMIT_ANSWER_S = 30.0
#: How a body's log records look in its captured output, unless the app set up logging itself.
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: Signals whose handlers a body may have changed; put back before the next attempt.
_WATCHED = (
    signal.SIGALRM,
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
    signal.SIGPIPE,
    INTERRUPT,
)
#: signal.getsignal without its round trip through an enum: this runs eight times per attempt.
_handler_of = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
_KINDS: dict[str, type[Interruption]] = {
    "cancel": TaskCanceled,
    "soft_timeout": SoftTimeout,
    "shutdown": ShutdownRequested,
}


class Plumbing(NamedTuple):
    """The descriptors a worker is born with."""

    assignments: int
    control: int
    vitals: int
    logs: int
    output: int
    dumps: int


class _Cost(NamedTuple):
    """What an attempt used and left behind, measured around its body."""

    cpu_s: float
    fds: int
    killed: int


class Worker:
    """One worker process, from Ready to exit."""

    def __init__(self, app: App, config: wire.WorkerConfig, plumbing: Plumbing) -> None:
        self._app = app
        self._config = config
        self._pid = os.getpid()
        self._main = threading.get_ident()
        self._assignments = socket.socket(fileno=plumbing.assignments)
        self._control = socket.socket(fileno=plumbing.control)
        self.vitals = Vitals(plumbing.vitals)
        os.close(plumbing.vitals)
        self.temp_dir = Path(config.temp_dir)
        self._decoder: wire.Decoder[wire.Assignment] = wire.Decoder(wire.Assignment)
        self._say_lock = threading.Lock()
        self._seq = 0
        self._wish: wire.Interrupt | None = None
        self._acknowledged = ""
        self._interrupted_by: str | None = None
        self._armed = False
        self._nudge: Callable[[], None] | None = None
        self._answers: dict[int, wire.ChildSubmitted] = {}
        self._answered = threading.Condition()
        self._requests = 0
        self._on_success: list[str] = []
        self._finished = 0
        self._output_fd = plumbing.output
        self._output_start = 0
        self._first_rss = 0
        self._baseline: dict[int, object] = {}
        self._threads = self._fds = 0

    def run(self) -> int:
        """Serve assignments until told to stop, recycled or interrupted; return the exit code."""
        self._settle_in()
        threading.Thread(target=self._pulse, name="supervisor-pulse", daemon=True).start()
        self._threads = threading.active_count()
        self._fds = _open_fds()
        self._say(wire.Ready(self._pid, tree.start_ticks(self._pid) or 0))
        why = self._serve()
        self._say(wire.Leaving(why))
        self._release()
        return EXIT_OK

    def _settle_in(self) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(INTERRUPT, self._on_interrupt)
        self._baseline = {number: _handler_of(number) for number in _WATCHED}
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self.temp_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.temp_dir)
        self._first_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def _serve(self) -> str:
        buffer = memoryview(bytearray(wire.PACKET_MAX_BYTES))
        while True:
            size = self._assignments.recv_into(buffer)
            if not size:
                return "the node closed the assignments"
            assign = self._decoder.decode(buffer[:size])
            if isinstance(assign, wire.Stop):
                return "stopped"
            self._attempt(assign)
            if self._interrupted_by:
                return f"interrupted by {self._interrupted_by}"
            if why := self._worn_out():
                return why

    def _worn_out(self) -> str:
        if self._finished >= self._config.recycle_after_tasks:
            return f"recycled after {self._finished} tasks"
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self._first_rss
        if grown > self._config.recycle_growth_bytes:
            return f"recycled: memory grew by {grown} bytes"
        return ""

    def _release(self) -> None:
        for hook in self._app.release_hooks:
            try:
                hook()
            except Exception:
                logging.getLogger("supervisor.worker").exception("a release hook raised")
        atexit._run_exitfuncs()
        tree.kill_descendants(self._pid)
        shutil.rmtree(self.temp_dir, ignore_errors=True)

    def _attempt(self, assign: wire.Assign) -> None:
        self._interrupted_by = None
        self._acknowledged = ""
        self._on_success.clear()
        os.environ["SUPERVISOR_ATTEMPT"] = f"{assign.task_id}:{assign.attempt}"
        started = mono_ns()
        self._seq = assign.seq
        self._output_start = os.fstat(self._output_fd).st_size
        self.vitals.begin(assign.seq, started, self._output_start)
        cpu = time.process_time()
        end = run_body(self._app, assign, self)
        if os.getpid() != self._pid:
            os._exit(EXIT_OK)  # a child that the body forked and let return: not ours to report
        self.vitals.end()
        self._seq = 0
        self._finished += 1
        finished = mono_ns()
        killed = self._clean_up()
        before, self._fds = self._fds, _open_fds()
        cost = _Cost(time.process_time() - cpu, self._fds - before, killed)
        self._say(self._report(assign, end, started, finished, cost))

    def _report(
        self, assign: wire.Assign, end: BodyEnd, started: int, finished: int, cost: _Cost
    ) -> wire.Finished:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return wire.Finished(
            seq=assign.seq,
            how=end.how,
            started_ns=started,
            finished_ns=finished,
            output_start=self._output_start,
            result_json=end.result_json,
            error_type=end.error_type,
            error=end.error,
            traceback=end.traceback,
            retryable=end.retryable,
            interrupted_by=self._interrupted_by,
            cpu_s=cost.cpu_s,
            max_rss_bytes=usage.ru_maxrss * 1024,
            leaked_fds=max(0, cost.fds),
            leaked_threads=max(0, threading.active_count() - self._threads),
            killed_children=cost.killed,
            children=tuple(self._on_success) if end.how == "returned" else (),
        )

    def _clean_up(self) -> int:
        killed = 0
        if tree.has_children():
            killed = tree.kill_descendants(self._pid)
            tree.reap_all()
        for number, handler in self._baseline.items():
            if _handler_of(number) != handler:
                signal.signal(number, handler)  # type: ignore[arg-type]
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._empty_temp_dir()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # a body may have closed it
                stream.flush()
        if getattr(sys.stdout, "closed", True) or getattr(sys.stderr, "closed", True):
            _open_streams()
        return killed

    def _empty_temp_dir(self) -> None:
        try:
            used = bool(os.listdir(self.temp_dir))
        except FileNotFoundError:
            used = True
        if used:
            shutil.rmtree(self.temp_dir, ignore_errors=True)
            self.temp_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def arm(self, nudge: Callable[[], None] | None, *, by_signal: bool) -> None:
        """The body begins: interrupts may land, by signal or through `nudge` (async bodies)."""
        self._nudge = nudge
        self._armed = by_signal

    def disarm(self) -> None:
        """The body is over: nothing may be raised from here on."""
        self._armed = False
        self._nudge = None

    def wish(self) -> Interruption | None:
        """Return what the current attempt was asked to do, as the exception that says so."""
        wish = self._wish
        if wish is None or wish.seq != self._seq:
            return None
        return _KINDS[wish.kind](wish.text)

    def acknowledge(self) -> None:
        """The body has seen the wish: remember it, and let the node see it."""
        wish = self._wish
        if wish is not None and wish.seq == self._seq:
            self._acknowledged = self._interrupted_by = wish.kind
            self.vitals.acknowledge(wish.seq, wish.kind)

    def _on_interrupt(self, _number: int, _frame: object) -> None:
        wish = self._wish
        if not self._armed or wish is None or self._acknowledged == wish.kind:
            return
        if (raised := self.wish()) is not None:
            self.acknowledge()
            raise raised

    def _press(self) -> None:
        """Bring the wish to the body, from the pulse thread."""
        wish = self._wish
        if wish is None or wish.seq != self._seq or self._acknowledged == wish.kind:
            return
        if self._nudge is not None:
            self._nudge()
        elif self._armed:
            signal.pthread_kill(self._main, INTERRUPT)

    def _say(self, message: wire.Message) -> None:
        data = wire.frame(message)
        if threading.get_ident() != self._main:  # interrupts only ever land in the main thread
            with self._say_lock:
                self._control.sendall(data)
            return
        armed, self._armed = self._armed, False  # an interrupt here would tear the frame
        try:
            with self._say_lock:
                self._control.sendall(data)
        finally:
            self._armed = armed
        self._on_interrupt(INTERRUPT, None)

    def save_checkpoint(self, value_json: str) -> None:
        """Send a checkpoint to the node."""
        self._say(wire.Checkpoint(self._seq, value_json))

    def submit_child(self, spec_json: str, *, on_success: bool) -> str | None:
        """Send a child task; with `on_success` it goes along with the ending."""
        if on_success:
            self._on_success.append(spec_json)
            return None
        with self._answered:
            self._requests += 1
            request = self._requests
        self._say(wire.SubmitChild(self._seq, request, spec_json))
        with self._answered:
            if not self._answered.wait_for(lambda: request in self._answers, SUBMIT_ANSWER_S):
                raise Refused(
                    f"the node did not answer within {SUBMIT_ANSWER_S:g} s",
                    remedy="Give the spec a dedup_key, so that submitting again is safe.",
                )
            answer = self._answers.pop(request)
        if answer.refused:
            raise Refused(answer.refused)
        return answer.task_id

    def _pulse(self) -> None:
        """Beat, and hear the node; the whole life of the helper thread."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        stream: wire.Stream[wire.FromNode] = wire.Stream(wire.FromNode)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            pressing = self._wish is not None and self._wish.seq == self._seq != 0
            wait_s = min(self._config.beat_period_s, INTERRUPT_AGAIN_S if pressing else 3600)
            heard = poll.poll(wait_s * 1000)
            self.vitals.beat()
            if heard:
                data = self._control.recv(wire.READ_BYTES)
                if not data:
                    os._exit(EXIT_NODE_GONE)
                for message in stream.feed(data):
                    self._hear(message)
            self._press()

    def _hear(self, message: wire.FromNode) -> None:
        if isinstance(message, wire.Interrupt):
            self._wish = message
        else:
            with self._answered:
                self._answers[message.request] = message
                self._answered.notify_all()


def _open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def be_worker(app: App, config: wire.WorkerConfig, plumbing: Plumbing) -> int:
    """Turn this freshly forked (or exec'ed) process into a worker and live its life."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    _capture_output(plumbing.output)
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    agent.install(plumbing.logs, plumbing.dumps)
    os.environ["SUPERVISOR_WORKER"] = config.worker_id
    try:
        return Worker(app, config, plumbing).run()
    except (OSError, WireBroken):
        logging.getLogger("supervisor.worker").exception("the line to the node broke")
        return EXIT_NODE_GONE


def _capture_output(output: int) -> None:
    """Point stdout and stderr at the node's memory file, so that writing can never block."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
    _open_streams()


def _open_streams() -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        text = open(number, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
