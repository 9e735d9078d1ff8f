"""The operating system's side of a node: starting, signalling and reaping processes.

Secret kept here: every fork, exec, signal and wait of the node. Called by the main thread only,
since a child's death signal is tied to the thread that made it. A worker is known by pid and start
time and held by a pidfd, so that a reused number is never hit.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autopsy.memfd import create_sealed
from supervisor.errors import BootFailed, Refused
from supervisor.model.crash import ExitStatus
from supervisor.model.record import ProcessIdentity
from supervisor.telemetry.events import emit
from supervisor.worker import tree, watchdog, wire
from supervisor.worker.presence import own_place
from supervisor.worker.spending import spent_of
from supervisor.worker.zygote import DESCRIPTOR_LIMIT, PR_SET_CHILD_SUBREAPER, prctl

NODE_MARKER = "SUPERVISOR_NODE"
#: With what accounts autopsies ask databases is none of the tasks' business.
_ACCOUNTS = "SUPERVISOR_AUTOPSY_DATABASES"
#: What one more worker takes, and what is kept free for the store, /proc, evidence and endpoint.
WORKER_DESCRIPTORS, RESERVED_DESCRIPTORS, PLENTY_DESCRIPTORS = 9, 24, 128
#: A program of ours whose line is closed leaves within moments.
LEAVE_S = 2.0
_SO_SNDBUFFORCE = 32  # socket(7); needs CAP_NET_ADMIN, the plain option is the fallback
ASSIGNMENT_BUFFER_BYTES = 1024 * 1024
_M_ARENA_MAX, ARENAS = -8, 2  # mallopt(3)
_FALLOC_PUNCH = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, fallocate(2)


def become_reaper() -> None:
    """Take in every orphan below, and make sure that exit statuses are kept for us."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an inherited SIG_IGN would lose them
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def raise_descriptor_limit() -> None:
    """Allow ourselves as many descriptors as the hard limit does: each worker takes some.

    The old soft limit is left in the environment, where a zygote finds it and takes it back.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.environ.setdefault(DESCRIPTOR_LIMIT, str(soft))
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def share_arenas() -> None:
    """Have all threads allocate from few pools, unless MALLOC_ARENA_MAX says how many.

    Threads of scrapes come and go. glibc gives each a pool of its own, up to eight for each core,
    and what was freed in one serves no other: megabytes that no table of objects shows.
    """
    set_option = getattr(ctypes.pythonapi, "mallopt", None)  # another C library has none
    if set_option is not None and "MALLOC_ARENA_MAX" not in os.environ:
        set_option(_M_ARENA_MAX, ARENAS)


def require_descriptors(workers: int) -> None:
    """Refuse another worker beside so many when it would take what the node itself needs.

    Raises: OSError (EMFILE).
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if (workers + 1) * WORKER_DESCRIPTORS + PLENTY_DESCRIPTORS <= soft:
        return  # far from the limit: counting costs a millisecond for a few hundred workers
    used = len(os.listdir("/proc/self/fd"))
    if used + WORKER_DESCRIPTORS + RESERVED_DESCRIPTORS > soft:
        raise OSError(errno.EMFILE, f"{used} of {soft} are open")


def own_identity() -> ProcessIdentity:
    """Return who this process is, for the store."""
    pid, here = os.getpid(), own_place()
    return ProcessIdentity(
        pid=pid,
        start_ticks=tree.start_ticks(pid) or 0,
        boot_id=here.boot_id,
        pid_ns=here.pid_ns,
    )


class StoreLock:
    """One node per SQLite file: an flock that the kernel drops when we die."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._fd, 100).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise Refused(
                f"another node (pid {holder or 'unknown'}) runs on this store",
                remedy="Stop it first, or give this one another --store: "
                "a SQLite store belongs to one node.",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another node have the store."""
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Death:
    """How a child ended."""

    status: ExitStatus
    max_rss_bytes: int
    spent: wire.Spent | None = None


def reap(pid: int) -> Death | None:
    """Collect this child if it has ended."""
    try:
        got, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return Death(ExitStatus(), 0)
    if not got:
        return None
    if os.WIFSIGNALED(status):
        how = ExitStatus(signal=os.WTERMSIG(status))
    else:
        how = ExitStatus(code=os.WEXITSTATUS(status))
    return Death(how, usage.ru_maxrss * 1024, spent_of(usage))


def count_unreaped() -> int:
    """Return how many children of this process have ended and were not collected."""
    return sum(
        fields is not None and fields[0] == "Z"
        for fields in map(tree.stat_fields, tree.children(os.getpid()))
    )


def kill_worker_tree(pid: int, born: int | None) -> int:
    """Stop the worker, end all below it, then the worker; return how many were below.

    The worker goes last: while it is unreaped its number cannot be reused, and as a subreaper it
    keeps what daemonised itself.
    """
    if born is not None and tree.start_ticks(pid) != born:
        return 0
    tree.send_signal(pid, signal.SIGSTOP, born=born)
    below = tree.kill_descendants(pid)
    tree.send_signal(pid, signal.SIGKILL, born=born)
    return below


def terminate(pid: int, born: int | None) -> None:
    """Ask the process to go."""
    tree.send_signal(pid, signal.SIGCONT, born=born)
    tree.send_signal(pid, signal.SIGTERM, born=born)


def start_zygote(
    app: str, line: socket.socket, marks: Mapping[str, str], *flags: str
) -> subprocess.Popen[bytes]:
    """Exec a zygote; `marks` go into the environment of all that descends from it.

    The flag --exec makes it one worker by itself, --describe only tells the app's settings.
    """
    command = [
        *(sys.executable, "-m", "supervisor.worker.zygote"),
        f"--line={line.fileno()}",
        f"--supervisor-pid={os.getpid()}",
        f"--app={app}",
    ]
    inherited = {name: value for name, value in os.environ.items() if name != _ACCOUNTS}
    return subprocess.Popen(
        [*command, *flags],
        stdin=subprocess.DEVNULL,
        pass_fds=[line.fileno()],
        env={**inherited, **marks},
        start_new_session=True,
    )


def describe_app(app: str) -> dict[str, object]:
    """Import the app in a process of its own and return the settings that its App(...) names.

    Raises: BootFailed with the import's own remedy.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    decoder: wire.Decoder[wire.FromZygote] = wire.Decoder(wire.FromZygote)
    with ours:
        with theirs:
            program = start_zygote(app, theirs, {}, "--describe")
        data = ours.recv(wire.PACKET_MAX_BYTES)
        code = program.wait()
    answer = decoder.decode(data) if data else None
    if isinstance(answer, wire.Described):
        found: dict[str, object] = json.loads(answer.overrides_json)
        return found
    if isinstance(answer, wire.BootRefused):
        raise BootFailed(answer.error, remedy=answer.remedy)
    raise BootFailed(
        f"importing {app!r} ended the process with code {code}",
        remedy=f"Run `python -c 'import {app.partition(':')[0]}'` and see what ends it.",
    )


def autopsy_command(*arguments: str) -> list[str]:
    """Return the command line of the autopsy program."""
    return [sys.executable, "-m", "autopsy", *arguments]


def start_tool(
    arguments: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start one of our own short-lived programs in its own session.

    `environment` is added to ours.
    """
    return subprocess.Popen(
        list(arguments),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment} if environment else None,
        start_new_session=True,
    )


class Tools:
    """Short-lived programs of our own beside the loop, reaped when they are done.

    One that cannot be started is told and missed: what it was to do (remove a folder, prune
    bundles) matters less than the turn that asked for it.
    """

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, *arguments: str) -> None:
        """Start one, if that is possible now."""
        try:
            self.adopt(start_tool(arguments))
        except OSError as exc:  # no more processes may be made, or there is no such program
            emit("loop.failed", step=f"starting {arguments[0]}", error=repr(exc))

    def adopt(self, program: subprocess.Popen[bytes]) -> None:
        """Reap this one too when it is done."""
        self._running.append(program)

    def pids(self) -> set[int]:
        """Reap what is done and return who runs on."""
        self._running = [program for program in self._running if program.poll() is None]
        return {program.pid for program in self._running}

    def wait(self, each_s: float) -> None:
        """Give each of them that long to end."""
        for program in self._running:
            with suppress(subprocess.TimeoutExpired):
                program.wait(each_s)


class Watchdog:
    """The program that ends this node's workers if we stand still: see `worker.watchdog`."""

    def __init__(self, node_id: str) -> None:
        self._mark = f"{NODE_MARKER}={node_id}"
        self._fd = create_sealed(watchdog.NAME, watchdog.SIZE)
        self._watch = watchdog.Watch(self._fd)
        self._program: subprocess.Popen[bytes] | None = None

    def vouch(self, until_boot: float, spare: set[int]) -> None:
        """Let the workers run until then, whatever becomes of us; start it if it does not run."""
        self._watch.vouch(until_boot, spare)
        if self._program is None or self._program.poll() is not None:
            self.close()
            self._program = self._start()

    def spare(self, pids: set[int]) -> None:
        """Let these live on whatever happens: they run no task."""
        self._watch.vouch(self._watch.until_boot, pids)

    def _start(self) -> subprocess.Popen[bytes] | None:
        words = (f"--memory={self._fd}", f"--mark={self._mark}")
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "supervisor.worker.watchdog", *words],
                stdin=subprocess.PIPE,
                pass_fds=[self._fd],
                start_new_session=True,
            )
        except OSError as exc:
            emit("loop.failed", step="starting the watchdog", error=repr(exc))
            return None

    def pids(self) -> set[int]:
        """Return its pid while it runs."""
        return {self._program.pid} if self._program is not None else set()

    def close(self) -> None:
        """Close the line, at which it leaves, and collect it."""
        program, self._program = self._program, None
        if program is None:
            return
        if program.stdin is not None:
            program.stdin.close()
        try:
            program.wait(LEAVE_S)
        except subprocess.TimeoutExpired:  # somebody has stopped it
            program.kill()
            program.wait()


def remove_empty(path: Path) -> bool:
    """Remove a folder if there is nothing in it; say whether it is gone."""
    try:
        path.rmdir()  # so it is nearly always
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def end_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL a program started by `start_tool` with its whole group; does not wait."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def assignment_pair() -> tuple[socket.socket, socket.socket]:
    """Return (ours, the worker's) ends of a packet queue that holds large assignments."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for option in (_SO_SNDBUFFORCE, socket.SO_SNDBUF):
        try:
            ours.setsockopt(socket.SOL_SOCKET, option, ASSIGNMENT_BUFFER_BYTES)
        except PermissionError:
            continue
        break
    ours.setblocking(False)
    return ours, theirs


def punch(fd: int, length: int) -> None:
    """Give back the memory of the first `length` bytes of a file in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    offset, size = ctypes.c_long(0), ctypes.c_long(length)
    if libc.fallocate(fd, _FALLOC_PUNCH, offset, size) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def marked_processes(node_ids: frozenset[str]) -> Iterator[int]:
    """Yield the pids of living processes that descend from the zygotes of these nodes.

    Found by the environment they were exec'ed with; one that scrubbed it: see `session_members`.
    """
    wanted = [f"{NODE_MARKER}={node_id}".encode() for node_id in node_ids]
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if not set(wanted).isdisjoint(file.read().split(b"\0")) and tree.is_alive(int(name)):
                yield int(name)


def session_members(leaders: Mapping[int, int]) -> Iterator[int]:
    """Yield the pids of living processes in the sessions of dead workers (pid → start time).

    Finds what was exec'ed with another environment. While a session has a member, the kernel gives
    its leader's number to nobody else; where somebody has that number now, it is left alone.
    """
    for name in os.listdir("/proc"):
        fields = tree.stat_fields(int(name)) if name.isdigit() else None
        if fields is None or fields[0] in ("Z", "X") or int(fields[3]) not in leaders:
            continue
        born = leaders[int(fields[3])]
        if tree.start_ticks(int(fields[3])) in (None, born) and int(fields[19]) >= born:
            yield int(name)


def end_marked(node_ids: frozenset[str], leaders: Mapping[int, int]) -> int:
    """SIGKILL everything left of these (dead) nodes and their workers; return how many."""
    ended: set[int] = set()
    for _ in range(tree.MAX_ROUNDS if node_ids else 0):
        found = [*marked_processes(node_ids), *session_members(leaders)]
        if not found:
            break
        for pid in found:
            if tree.send_signal(pid, signal.SIGKILL):
                ended.add(pid)
    return len(ended)
