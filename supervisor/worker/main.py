"""The life of a worker process: take an assignment, run its body, report, take the next.

Two threads. The main thread runs bodies, so that an interrupt reaches them; the pulse thread beats,
and hears the node (interrupts, answers). Invariants: an interrupt is raised only inside the body of
the attempt it names; a frame on the wire is never torn by one; a worker that was interrupted is not
used again (state it left behind cannot be known). Exit codes: 0 left in order, 3 boot failed, 4 app
import failed, 5 the node vanished, 6 an error of the worker itself once it was ready.
"""

from __future__ import annotations

import _thread
import atexit
import logging
import mmap
import os
import random
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
from autopsy.sampler import Sampler
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
from supervisor.model.label import NO_WORDS
from supervisor.telemetry.trace import Flusher
from supervisor.worker import tree, wire
from supervisor.worker.body import BodyEnd, in_words, run_body
from supervisor.worker.surroundings import (
    Surroundings,
    detach_input,
    open_streams,
    redirect_output,
)
from supervisor.worker.tally import Tally
from supervisor.worker.telling import Telling
from supervisor.worker.vitals import Vitals

if TYPE_CHECKING:
    from supervisor.app import App

EXIT_OK, EXIT_BOOT_FAILED, EXIT_IMPORT_FAILED, EXIT_NODE_GONE, EXIT_OWN_ERROR = 0, 3, 4, 5, 6

#: The helper thread's name, as far as the kernel keeps it.
PULSE = "supervisor-puls"
#: An interrupt is sent again this often until the body has seen it.
INTERRUPT_AGAIN_S = 1.0
#: A body that is knocked at waits this many hundredths of a second for what it shall be told.
KNOCK_PATIENCE = 5
#: A task waits this long for the node's answer to a task it submits.
SUBMIT_ANSWER_S = 30.0
#: What tasks submitted on success may take together: they travel in one frame with the ending.
ON_SUCCESS_MAX = 1024 * 1024
#: All signals but the two that the C library keeps for itself.
ALL_SIGNALS = frozenset(range(1, signal.NSIG)) - {32, 33}
#: How a body's log records look in its captured output, unless the app set up logging itself.
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
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
    stacks: int
    output: int
    dumps: int


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
        self._sampler = Sampler(plumbing.stacks)
        os.close(plumbing.stacks)
        self.temp_dir = Path(config.temp_dir)
        self._decoder = wire.assignments
        self._say_lock = threading.Lock()
        self._seq = 0
        self._wish: wire.Interrupt | None = None
        self._acknowledged = ""
        self._interrupted_by: str | None = None
        self._armed = False
        self._nudge: Callable[[], None] | None = None
        self._answers: dict[int, wire.ChildSubmitted] = {}
        self._answered = threading.Condition()
        self._on_success: list[str] = []
        self._telling = Telling(self._control, self._say_lock, self.vitals)
        self._requests = self._finished = 0
        self._flusher = Flusher()
        self._output_fd = plumbing.output
        self._output_start = 0
        self._first_rss = self._max_rss = 0
        self._spoiled = ""
        self.is_ready = False

    def run(self) -> int:
        """Serve assignments until told to stop, recycled or interrupted; return the exit code."""
        signal.signal(INTERRUPT, self._on_interrupt)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.temp_dir)
        spent = self._telling.spending.look(0)
        self._first_rss = self._max_rss = self._telling.spending.max_rss_bytes
        _thread.start_new_thread(self._pulse, ())  # a Thread object costs as much as the rest
        self._surroundings = Surroundings(self._output_fd, self.temp_dir)
        self._say(wire.Ready(self._pid, tree.start_ticks(self._pid) or 0, spent))
        self.is_ready = True
        why = self._serve()
        self._say(wire.Leaving(why))
        self._release()
        return EXIT_OK

    def confess(self, exc: BaseException) -> None:
        """Tell the node, if it still listens, that this error of our own ends the process."""
        with suppress(OSError):
            self._say(wire.Leaving(f"an error of the worker itself: {in_words(exc)}"))

    def _serve(self) -> str:
        room = mmap.mmap(-1, wire.PACKET_MAX_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        buffer = memoryview(room)  # takes memory as it is used: most packets are small
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
            if self._spoiled:
                return f"recycled: cleaning up failed: {self._spoiled}"
            if why := self._worn_out():
                return why

    def _worn_out(self) -> str:
        if self._finished >= self._config.recycle_after_tasks:
            return f"recycled after {self._finished} tasks"
        grown = self._max_rss - self._first_rss
        if grown > self._config.recycle_growth_bytes:
            return f"recycled: memory grew by {grown} bytes"
        config = self._config
        grown_by = self._surroundings.worn_out(
            config.recycle_growth_fds, config.recycle_growth_threads
        )
        return f"recycled: {grown_by}" if grown_by else ""

    def _release(self) -> None:
        for hook in self._app.release_hooks:
            try:
                hook()
            except Exception:
                logging.getLogger("supervisor.worker").exception("a release hook raised")
        self._flusher.finish()
        atexit._run_exitfuncs()
        tree.kill_descendants(self._pid)
        shutil.rmtree(self.temp_dir, ignore_errors=True)

    def _attempt(self, assign: wire.Assign) -> None:
        self._interrupted_by, self._acknowledged = None, ""
        self._on_success.clear()
        os.environ["SUPERVISOR_ATTEMPT"] = f"{assign.task_id}:{assign.attempt}"
        self._surroundings.begin(assign.task_id, assign.attempt)
        started = mono_ns()
        self._telling.begin(started)
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
        cpu_s = time.process_time() - cpu
        left, output_end = self._clean_up((finished - started) / 1e9, end.how)
        self._say(self._report(assign, end, (started, finished, output_end), cpu_s, left))
        self._flusher.flush()

    def _clean_up(self, ran_s: float, how: str) -> tuple[wire.LeftBehind | None, int]:
        """Put the process back in order; if that fails, the ending still counts and we leave."""
        try:
            left = self._surroundings.restore(
                ran_s, returned=how == "returned", leaving=bool(self._interrupted_by)
            )
        except BaseException as exc:
            self._spoiled = in_words(exc)
            left = None
        return left, os.fstat(self._output_fd).st_size

    def _report(
        self,
        assign: wire.Assign,
        end: BodyEnd,
        marks: tuple[int, int, int],
        cpu_s: float,
        left: wire.LeftBehind | None,
    ) -> wire.Finished:
        started, finished, output_end = marks
        spending = self._telling.spending
        spent = spending.look((finished - started) / 1e9)
        self._max_rss = spending.max_rss_bytes
        return wire.Finished(
            seq=assign.seq,
            how=end.how,
            started_ns=started,
            finished_ns=finished,
            output_start=self._output_start,
            output_end=output_end,
            result_json=end.result_json,
            error_type=end.error_type,
            error=end.error,
            traceback=end.traceback,
            retryable=end.retryable,
            interrupted_by=self._interrupted_by,
            cpu_s=cpu_s,
            max_rss_bytes=self._max_rss,
            left=left,
            children=tuple(self._on_success) if end.how == "returned" else (),
            spent=spent,
            tally=self._telling.said(assign.seq),
        )

    def arm(self, nudge: Callable[[], None] | None, *, by_signal: bool) -> None:
        """The body begins: interrupts may land, by signal or through `nudge` (async bodies)."""
        self._nudge = nudge
        self._armed = by_signal
        if not by_signal:  # a signal that means nothing here must not cut a system call short
            signal.pthread_sigmask(signal.SIG_BLOCK, {INTERRUPT})

    def disarm(self) -> None:
        """The body is over: nothing may be raised from here on, by its own timers neither."""
        self._armed = False
        self._nudge = None
        self._surroundings.quiet()

    def wish(self) -> Interruption | None:
        """Return what the current attempt was asked to do, as the exception that says so."""
        wish = self._wish
        if wish is None or wish.seq != self._seq:
            return None
        return _KINDS[wish.kind](wish.text)

    def acknowledge(self) -> None:
        """The body has seen the wish: remember it, and let the node see it.

        A thread of the body that sees it says nothing of the main thread, which is still pressed.
        """
        wish = self._wish
        if wish is not None and wish.seq == self._seq and threading.get_ident() == self._main:
            self._acknowledged = self._interrupted_by = wish.kind
            self.vitals.acknowledge(wish.seq, wish.kind)

    def _on_interrupt(self, _number: int, _frame: object) -> None:
        if self._armed and self.wish() is None:
            self._let_hear()
        self._obey()

    def _let_hear(self) -> None:
        """The node knocks: for want of the GIL the pulse thread has not heard it; give it away."""
        for _ in range(KNOCK_PATIENCE):
            select.select([], [], [], 0.01)
            if self.wish() is not None:
                return

    def _obey(self) -> None:
        """Leave the body here if it shall and has not been told yet."""
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
        if os.getpid() != self._pid:
            raise Refused(
                "a process that the body forked has no line to the node",
                remedy="Call ctx only in the process that runs the task.",
            )
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
        self._obey()

    def tally(self, seq: int, type_name: str, complain: Callable[[str], None]) -> Tally:
        """Return where the attempt `seq` gathers what it says; of one that is over nobody hears."""
        task = self._app.types.get(type_name)
        mine = Tally(task.words if task is not None else NO_WORDS, self.wish, complain)
        return self._telling.gather(seq, mine) if seq == self._seq else mine

    def knows(self, type_name: str) -> bool:
        """Say whether the app has this task type."""
        return type_name in self._app.types

    def save_checkpoint(self, value_json: str) -> None:
        """Send a checkpoint to the node."""
        self._say(wire.Checkpoint(self._seq, value_json))

    def submit_child(self, spec_json: str, *, on_success: bool) -> str | None:
        """Send a child task; with `on_success` it goes along with the ending."""
        if on_success:
            if sum(map(len, self._on_success)) + len(spec_json) > ON_SUCCESS_MAX:
                raise Refused(
                    f"the tasks submitted on success are more than {ON_SUCCESS_MAX} characters",
                    remedy="Submit one task on success that submits the others.",
                )
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
        signal.pthread_sigmask(signal.SIG_BLOCK, ALL_SIGNALS)
        with open("/proc/thread-self/comm", "w") as name:  # an autopsy must know it for ours
            name.write(PULSE)
        stream: wire.Stream[wire.FromNode] = wire.Stream(wire.FromNode)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            pressing = self._wish is not None and self._wish.seq == self._seq != 0
            wait_s = min(self._config.beat_period_s, INTERRUPT_AGAIN_S if pressing else 3600)
            heard = poll.poll(wait_s * 1000)
            self.vitals.beat()
            if seq := self._seq:  # an idle worker has nothing to tell
                self._sampler.turn(seq)
                self._telling.tell(seq)
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


def prepare() -> None:
    """Do what is the same for every worker, once, before any is forked.

    A newborn inherits it for nothing, while each page that it must write to itself is copied. From
    here on the process writes through fresh streams and takes signals as a worker does.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # whatever the app's import has put there
            stream.flush()
    detach_input()
    open_streams()
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def be_worker(app: App, config: wire.WorkerConfig, plumbing: Plumbing) -> int:
    """Turn this freshly forked (or exec'ed) and prepared process into a worker; live its life."""
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    redirect_output(plumbing.output)
    agent.install(plumbing.logs, plumbing.dumps)
    os.environ["SUPERVISOR_WORKER"] = config.worker_id
    log = logging.getLogger("supervisor.worker")
    worker = Worker(app, config, plumbing)
    try:
        return worker.run()
    except (OSError, WireBroken):
        log.exception("the line to the node broke")
        return EXIT_NODE_GONE
    except BaseException as exc:
        if not worker.is_ready:
            raise
        log.exception("an error of the worker itself")
        worker.confess(exc)
        return EXIT_OWN_ERROR
