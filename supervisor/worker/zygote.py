"""The zygote: an exec'ed, single-threaded process that has imported the app and forks workers.

Secret kept here: how a worker is born as the *node's* child. The zygote forks twice, the middle
process leaves, and the kernel hands its orphans to the nearest subreaper, the node. A newborn waits
until its parent is the node (never until a pipe closes: that comes first), asks to die with it, and
looks again. With --exec the process itself becomes the one worker.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from supervisor.clock import SystemClock
from supervisor.errors import BootFailed
from supervisor.settings import SCOPED, TaskOptions
from supervisor.telemetry import trace
from supervisor.worker import segments, wire
from supervisor.worker.main import (
    EXIT_BOOT_FAILED,
    EXIT_IMPORT_FAILED,
    EXIT_NODE_GONE,
    EXIT_OK,
    Plumbing,
    be_worker,
    prepare,
)

if TYPE_CHECKING:
    from supervisor.app import App

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
HAND_OVER_S = 5.0
#: A newborn looks this often whose child it is; the middle process may have others to fork.
FIRST_LOOK_S, LONGEST_LOOK_S = 0.0002, 0.002
#: Births from one middle process, whose own fork costs as much as a worker's.
BATCH = 16
#: Where the node leaves the limit of descriptors that was in force before it raised its own.
DESCRIPTOR_LIMIT = "TASK_SUPERVISOR_NOFILE"
_PID = struct.Struct("<q")


def prctl(option: int, value: int) -> None:
    """Call prctl(2) and raise OSError when the kernel refuses.

    The C library is reached through what ctypes holds already: a newborn loads nothing.
    """
    if ctypes.pythonapi.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(f"the kernel refused prctl({option}, {value})")


def load_app(reference: str) -> App:
    """Import `module:attribute` (attribute defaults to app) and return the App.

    Raises: BootFailed naming what is wrong and how to mend it.
    """
    from supervisor.app import App

    module_name, _, attribute = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as exc:
        raise BootFailed(
            f"importing {module_name!r} raised {type(exc).__name__}: {exc}{_raised_at(exc)}",
            remedy=f"Run `python -c 'import {module_name}'` in the same directory and mend it.",
            traceback=traceback.format_exc(),
        ) from exc
    found = getattr(module, attribute or "app", None)
    if not isinstance(found, App):
        raise BootFailed(
            f"{module_name!r} has no App named {attribute or 'app'!r}",
            remedy="Name it as MODULE:ATTRIBUTE, for example tasks:app.",
        )
    return found


def _raised_at(error: BaseException) -> str:
    """Name the last line of the app's side that an import was in, where it got so far."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = f"{Path(__file__).parent.parent}{os.sep}"  # among it what refuses a decorator of theirs
    theirs = [
        f
        for f in frames
        if not f.filename.startswith(ours) and not _is_import_machinery(f.filename)
    ]
    return f" (at {theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""


def _is_import_machinery(filename: str) -> bool:
    return filename.startswith("<frozen importlib") or filename == importlib.__file__


def describe_types(app: App) -> tuple[wire.TypeInfo, ...]:
    """Return what the node must know of each task type."""
    return tuple(
        wire.TypeInfo(name, _given(task.options), task.options.secret_params, dict(task.words))
        for name, task in app.types.items()
    )


def _given(options: TaskOptions) -> dict[str, str | float | int]:
    values = {name: getattr(options, name) for name in ("queue", "expected_duration", *SCOPED)}
    return {name: value for name, value in values.items() if value is not None}


def fork_obstacles() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say what the app's import left behind: (what forbids forking, what is only worth a warning).

    Python threads, connected sockets and running event loops forbid it; native threads (numpy's
    BLAS) restart themselves after a fork and only warn.
    """
    threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    obstacles = [f"thread {name!r} is running" for name in threads]
    obstacles += [f"socket connected to {peer} is open" for peer in _connected_sockets()]
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        obstacles.append("an event loop is running")
    native = len(os.listdir("/proc/self/task")) - 1 - len(threads)
    warnings = (f"{native} native thread(s) run beside Python's",) if native > 0 else ()
    return tuple(obstacles), warnings


def _connected_sockets() -> list[str]:
    peers = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as sock:
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    peers.append("{}:{}".format(*sock.getpeername()[:2]))
    return peers


class _Asked(NamedTuple):
    """A birth that the node asked for."""

    config: wire.WorkerConfig
    plumbing: Plumbing

    def close(self) -> None:
        """Let go of the worker's descriptors in a process that is not that worker."""
        for fd in self.plumbing:
            os.close(fd)


class Zygote:
    """The loop of the zygote process."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._decoder: wire.Decoder[wire.Birth] = wire.Decoder(wire.Birth)
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)

    def run(self, app: App) -> int:
        """Report the app, then fork a worker for each Birth until the line closes."""
        obstacles, warnings = fork_obstacles()
        prepare()
        gc.collect()
        gc.freeze()
        self._send(wire.Booted(describe_types(app), obstacles, warnings))
        while (birth := self._asked()) is not None:
            births = [birth]
            while len(births) < BATCH and self._more_is_asked():
                if (birth := self._asked()) is None:
                    break
                births.append(birth)
            self._give_births(app, births)
        return EXIT_OK

    def _more_is_asked(self) -> bool:
        return bool(self._poll.poll(0))

    def _asked(self) -> _Asked | None:
        """Wait for the next birth; None once the line is closed."""
        data, fds, _, _ = socket.recv_fds(self._line, wire.PACKET_MAX_BYTES, len(Plumbing._fields))
        for fd in fds:
            os.set_inheritable(fd, False)  # they arrive inheritable: no exec may keep them
        return _Asked(self._decoder.decode(data).config, Plumbing(*fds)) if data else None

    def _send(self, message: wire.Message) -> None:
        self._line.send(wire.encode(message))

    def _give_births(self, app: App, births: list[_Asked]) -> None:
        try:
            pids, error = self._fork_twice(app, births), "the second fork failed"
        except OSError as exc:
            pids, error = [], str(exc)
        finally:
            for birth in births:
                birth.close()
        for birth, pid in zip_longest(births, pids):
            worker_id = birth.config.worker_id
            if pid is None:
                self._send(wire.Stillborn(worker_id, error))
            else:
                self._send(wire.Born(worker_id, pid))

    def _fork_twice(self, app: App, births: list[_Asked]) -> list[int]:
        """Return the pids of the workers in the order asked for; fewer if a fork failed.

        They are known as born only when the middle process is gone: its orphans are the node's.
        """
        read_end, write_end = os.pipe()
        try:
            middle = os.fork()
            if middle == 0:
                os.close(read_end)
                self._middle(app, births, write_end)
            os.close(write_end)
            write_end = -1
            told = b""
            while len(told) < len(births) * _PID.size and (data := os.read(read_end, 4096)):
                told += data  # the end of the pipe would come later: newborns hold it for a while
            os.waitpid(middle, 0)
        finally:
            os.close(read_end)
            if write_end >= 0:
                os.close(write_end)
        return [pid for (pid,) in _PID.iter_unpack(told)]

    def _middle(self, app: App, births: list[_Asked], write_end: int) -> NoReturn:
        """Fork the workers and leave, so that they become orphans."""
        middle = os.getpid()
        try:
            for birth in births:
                pid = os.fork()
                if pid == 0:
                    os.close(write_end)
                    self._line.close()
                    self._live(app, birth, births, middle)
                os.write(write_end, _PID.pack(pid))
        finally:  # those it has not told of are not born; nothing may unwind into the zygote
            os._exit(EXIT_OK)

    def _live(self, app: App, birth: _Asked, births: list[_Asked], middle: int) -> NoReturn:
        code = EXIT_BOOT_FAILED
        try:
            for other in births:
                if other is not birth:
                    other.close()
            code = _newborn(app, birth.config, birth.plumbing, middle)
        except BaseException:  # nothing of a worker may unwind into the zygote it was forked from
            traceback.print_exc()
        _leave(code)


def _newborn(app: App, config: wire.WorkerConfig, plumbing: Plumbing, middle: int) -> int:
    os.setsid()
    if not _handed_over(config.supervisor_pid, middle):
        return EXIT_NODE_GONE
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    return be_worker(app, config, plumbing)


def _handed_over(supervisor_pid: int, middle: int) -> bool:
    """Wait to become the node's child, then tie our life to its; False if it is gone.

    The orphans of the middle process are the node's: who is anybody else's has lost the node.
    """
    clock = SystemClock()
    deadline = clock.mono() + HAND_OVER_S
    pause_s = FIRST_LOOK_S
    while (parent := os.getppid()) != supervisor_pid:
        if parent != middle or clock.mono() > deadline:
            return False
        clock.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_LOOK_S)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == supervisor_pid


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _boot(reference: str, line: socket.socket) -> App:
    try:
        app = load_app(reference)
    except BootFailed as exc:
        text = str(exc.facts.get("traceback", ""))
        line.send(wire.encode(wire.BootRefused(str(exc), exc.remedy, text[-8000:])))
        _leave(EXIT_IMPORT_FAILED)
    segments.prepare()
    return app


def _main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="supervisor.worker.zygote", description=__doc__)
    parser.add_argument("--line", type=int, required=True, help="descriptor of the node's socket")
    parser.add_argument("--supervisor-pid", type=int, required=True)
    parser.add_argument("--app", required=True, help="MODULE:ATTRIBUTE of the App")
    parser.add_argument("--exec", action="store_true", help="become one worker, do not fork")
    parser.add_argument("--describe", action="store_true", help="tell the App's settings and end")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the node's to act on
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != options.supervisor_pid:
        return EXIT_NODE_GONE
    if (before := os.environ.pop(DESCRIPTOR_LIMIT, None)) is not None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(int(before), hard), hard))
    os.environ.pop(trace.VARIABLE, None)  # whoever started the node is no parent of its tasks
    line = socket.socket(fileno=options.line)
    line.set_inheritable(False)
    app = _boot(options.app, line)
    if options.describe:
        line.send(wire.encode(wire.Described(json.dumps(dict(app.overrides), default=str))))
        return EXIT_OK
    if options.exec:
        return _become_worker(app, line)
    return Zygote(line).run(app)


def _become_worker(app: App, line: socket.socket) -> int:
    prepare()
    line.send(wire.encode(wire.Booted(describe_types(app))))
    data, fds, _, _ = socket.recv_fds(line, wire.PACKET_MAX_BYTES, len(Plumbing._fields))
    if not data:
        return EXIT_NODE_GONE
    for fd in fds:
        os.set_inheritable(fd, False)
    decoder: wire.Decoder[wire.Birth] = wire.Decoder(wire.Birth)
    config = decoder.decode(data).config
    line.close()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    return be_worker(app, config, Plumbing(*fds))


if __name__ == "__main__":
    _leave(_main())
