"""Running `py-spy dump` so that it can harm neither the patient nor the deadline.

Secret: its options, its JSON and its error texts. Invariants: own process group, SIGKILL when
late; a patient that a blocking dump left stopped is resumed. A blocking dump is never used on a
process that is not running: it hangs there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autopsy import clock
from autopsy.collect import procfs
from autopsy.collect.patient import STOPPED_STATES, Patient

REAP_S = 0.1
# Of what the C library keeps about a thread; its id is at byte 720 with glibc on x86-64.
_HANDLE_BYTES = 1024
# A dump of 2,000 threads, 30 calls deep, is 12 MB.
OUTPUT_LIMIT_BYTES = 32 << 20
_PERMISSION = re.compile(r"permission denied|operation not permitted|EPERM", re.IGNORECASE)
_NOT_PYTHON = re.compile(r"failed to find (a )?python|not a python", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Frame:
    """One call: the function, the file, the line; `native` for a frame outside of Python."""

    function: str
    file: str
    line: int
    native: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread's stack, innermost call first."""

    tid: int
    name: str
    owns_gil: bool
    active: bool
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Dumped:
    """What one dump gave: the threads, or the plain reason why there are none."""

    threads: tuple[Thread, ...] = ()
    reason: str = ""


class _NoDump(Exception):
    """The dump was not made, or not to its end; the message says why."""


class Dumper:
    """Runs py-spy at a given path; remembers what still runs so that it can all be ended."""

    def __init__(self, path: str | None = None, *, native: bool = False) -> None:
        self.path = path or str(Path(sys.executable).parent / "py-spy")
        self.native = native  # whether native calls are wanted of any process
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = ""
        self._hopeless = ""  # why it is not tried again: its next sample would be as late
        self._lock = threading.Lock()  # between a start and the end of everything

    def dump(self, patient: Patient, tid: int, limit_s: float, *options: str) -> Dumped:
        """Dump all stacks through a living thread `tid`, within `limit_s` seconds.

        Options are py-spy's: `--nonblocking`, `--native`; without either the dump blocks.
        """
        blocking = "--nonblocking" not in options
        if self._hopeless:
            return Dumped(reason=self._hopeless)
        try:
            returncode, out, err = self._run(
                ["dump", "--json", *options, "--pid", str(tid)], limit_s
            )
        except OSError as exc:
            return Dumped(reason=f"py-spy cannot be started: {self.path}: {exc.strerror}")
        except _NoDump as exc:
            reason = str(exc)
            # A blocking one is given little time, and may well need more on a busy host.
            self._hopeless = "" if blocking else reason
        else:
            if returncode == 0:
                return parse(out, patient.pid)
            reason = _plain_reason(returncode, err.decode("utf-8", "replace"))
        if blocking:
            _resume_if_stopped(patient)
        return Dumped(reason=reason)

    @property
    def closed(self) -> bool:
        """Whether no dump is made any more."""
        return bool(self._closed)

    def version(self) -> str:
        """Return the installed version of the default py-spy; `unknown` for any other."""
        libraries = Path(self.path).parent.parent / "lib"
        found = libraries.glob("python*/site-packages/py_spy-*.dist-info")
        names = [directory.name for directory in found]
        return names[0].removeprefix("py_spy-").removesuffix(".dist-info") if names else "unknown"

    def stop_all(self, why: str = "the capture is over") -> None:
        """Kill every dump that still runs and start no more."""
        with self._lock:
            self._closed = self._closed or why
            running = list(self._running)
        for process in running:
            _kill_group(process)

    def _run(self, arguments: Sequence[str], limit_s: float) -> tuple[int, bytes, bytes]:
        with self._lock:
            if self._closed:
                raise _NoDump(self._closed)
            process = subprocess.Popen(
                [self.path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            )
            self._running.add(process)
        try:
            out, err = _heard(process, limit_s)
        except _NoDump:
            _kill_group(process)
            raise
        finally:
            self._running.discard(process)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        if self._closed and process.returncode < 0:
            raise _NoDump(self._closed)
        return process.returncode, out, err


def _heard(process: subprocess.Popen[bytes], limit_s: float) -> tuple[bytes, bytes]:
    """Return what it prints until its end; raises _NoDump if that is too late, or too much."""
    late = _NoDump(f"py-spy did not answer within {limit_s * 1000:.0f} ms")
    deadline = clock.mono() + limit_s
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    heard = {pipe.fileno(): bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for fd in heard:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            if clock.mono() >= deadline:
                raise late
            for key, _ in selector.select(deadline - clock.mono()):
                piece = os.read(key.fd, 1 << 16)
                heard[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
            if sum(map(len, heard.values())) > OUTPUT_LIMIT_BYTES:
                raise _NoDump(f"py-spy printed more than {OUTPUT_LIMIT_BYTES >> 20} MiB")
    try:
        process.wait(max(0.0, deadline - clock.mono()))
    except subprocess.TimeoutExpired:
        raise late from None
    out, err = (bytes(one) for one in heard.values())
    return out, err


def parse(printed: bytes, pid: int = 0) -> Dumped:
    """Return the threads py-spy printed as JSON, or the reason why this is not such a print.

    Before Python 3.11 it tells which thread is which only if it stops them: `pid` is asked.
    """
    try:
        entries = json.loads(printed)
        outside = procfs.inner_thread_ids(pid)
        if any(entry["os_thread_id"] is None for entry in entries):
            tids = _thread_ids(pid, [int(entry["thread_id"]) for entry in entries], outside)
            if tids is None:
                return Dumped(reason="py-spy did not tell which thread is which")
        else:
            tids = [int(entry["os_thread_id"]) for entry in entries]
        if outside.keys() >= set(tids):  # in a container a thread knows the id it has in there
            tids = [outside[tid] for tid in tids]
        threads = tuple(_thread(entry, tid) for entry, tid in zip(entries, tids, strict=True))
    except (ValueError, TypeError, KeyError, AttributeError):
        return Dumped(reason="py-spy printed something that is not a dump")
    if not threads:
        return Dumped(reason="py-spy found no Python thread")
    return Dumped(threads)


def _thread_ids(pid: int, handles: list[int], living: Collection[int]) -> list[int] | None:
    """Return the kernel's id of each thread by its handle of the C library.

    A handle is the address of what the library keeps about a thread, somewhere in it the id: where
    is no matter, since there is one place at which all have the ids of different living threads.
    """
    if len(handles) == len(living) == 1:
        return list(living)
    kept = [procfs.read_memory(pid, handle, _HANDLE_BYTES) for handle in handles]
    words = [struct.unpack(f"<{_HANDLE_BYTES // 4}i", one) for one in kept if one]
    if len(words) < len(handles):
        return None
    for tids in zip(*words, strict=True):
        if set(living).issuperset(tids) and len(set(tids)) == len(tids):
            return list(tids)
    return None


def _thread(entry: dict[str, Any], tid: int) -> Thread:
    return Thread(
        tid=tid,
        name=str(entry["thread_name"] or ""),
        owns_gil=bool(entry["owns_gil"]),
        active=bool(entry["active"]),
        frames=tuple(_frame(frame) for frame in entry["frames"]),
    )


def _frame(frame: dict[str, Any]) -> Frame:
    file = str(frame["filename"])
    # A native frame has a shared object or nothing where a Python one has its source file.
    native = frame.get("module") is not None and not file.endswith((".py", ".pyx", ">"))
    return Frame(str(frame["name"]), file, int(frame["line"]), native)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # In D state even SIGKILL has to wait: so do not.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=REAP_S)


def _resume_if_stopped(patient: Patient) -> None:
    """Only after a blocking dump that failed; those start on patients that were not stopped."""
    if any(state in STOPPED_STATES for state in patient.thread_states().values()):
        patient.resume()


def _plain_reason(returncode: int, printed: str) -> str:
    if _PERMISSION.search(printed):
        return "no permission to read this process: needs SYS_PTRACE"
    if _NOT_PYTHON.search(printed):
        return "py-spy found no Python interpreter in this process"
    lines = [line for line in printed.strip().splitlines() if line.strip()]
    said = lines[-1].strip()[:200] if lines else "nothing"
    if returncode < 0:
        return f"py-spy was ended by signal {-returncode}"
    return f"py-spy failed with exit code {returncode} and said: {said}"
