"""What /proc says about the patient and each of its threads, at two moments.

Secret: which files. The first look is taken before any dump: a ptrace stop makes the kernel forget
the arguments of a timed system call. The second, a quarter of a second later, shows movement.
"""

from __future__ import annotations

import re
import struct

from autopsy import clock, redact
from autopsy.collect import cgroup, procfs
from autopsy.collect.patient import DEAD_STATES, MOVEMENT_WINDOW_S, Patient
from autopsy.section import Payload

_MAX_THREADS = 4000
_INTERPRETER = re.compile(r"^(?:python|pypy)[\d.]*\w*$")
# What time.sleep asks for: clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, deadline).
_MONOTONIC, _ABSOLUTE = 1, 1
# Where the calls that can give up have the address of their timeout, or poll's milliseconds.
_TIMEOUTS = {"futex": 3, "ppoll": 2, "select": 4, "pselect6": 4, "rt_sigtimedwait": 2}
_POLL_TIMEOUT, _EPOLL_TIMEOUT = 2, 3
_FUTEX_COMMAND, _FUTEX_WAIT_BITSET, _FUTEX_REALTIME = 0x7F, 9, 256
_STATUS_KEPT = (
    "State", "PPid", "TracerPid", "Uid", "Gid", "VmPeak", "VmSize", "VmRSS", "VmSwap", "Threads",
    "SigQ", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapEff", "NoNewPrivs", "Seccomp",
    "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches",
)  # fmt: skip


def collect(patient: Patient) -> Payload:
    """Take the first look: the process as a whole and every thread with its system call."""
    base = f"/proc/{patient.pid}"
    status = procfs.status(f"{base}/status") or {}
    executable = procfs.link(f"{base}/exe")
    return {
        "at_ms": patient.elapsed_ms(),
        "threads": threads(patient.pid),
        "name": status.get("Name", ""),
        "status": {key: status[key] for key in _STATUS_KEPT if key in status},
        "frozen": cgroup.is_frozen(patient.pid),
        "hidden": procfs.is_hidden(patient.pid),
        "command_line": redact.arguments(procfs.command_line(patient.pid)),
        "executable": executable,
        "python": is_python(patient.pid, executable, status),
        "directory": procfs.link(f"{base}/cwd"),
        "environment": redact.environment(procfs.read_text(f"{base}/environ") or ""),
        "limits": limits(patient.pid),
        "cgroup": (procfs.read_text(f"{base}/cgroup") or "").splitlines(),
        "wchan": procfs.read_text(f"{base}/wchan"),
        "oom_score": _number(f"{base}/oom_score"),
        "oom_score_adj": _number(f"{base}/oom_score_adj"),
    }


def collect_movement(patient: Patient) -> Payload:
    """Take the second look, one movement window after the patient was opened.

    Shapes: as the first; exit_code or exit_signal of one that has ended and is not yet reaped.
    """
    patient.wait_until(MOVEMENT_WINDOW_S)
    there = patient.is_there()
    seen = threads(patient.pid) if there else []
    return {
        "at_ms": patient.elapsed_ms(),
        "alive": any(thread["state"] not in DEAD_STATES for thread in seen),
        "reaped": not there,
        "threads": seen,
        **(procfs.ending(patient.pid) if there else {}),
    }


def threads(pid: int) -> list[Payload]:
    """Return one entry per thread, main thread first.

    Shapes: tid, name, state, cpu (the last it ran on), cpu_ticks, mono_s (when it was looked at),
    cpu_ns and run_delay_ns (how long it ran and waited for a CPU), switches (voluntary), wchan,
    syscall, args, opens
    (the path, of a thread that waits in an open), waits_on (fds),
    sleep_left_s (of a thread in a sleep; None when unknown), timeout_left_s (of any other wait that
    ends by itself; None when it has no timeout or none that can be read).
    """
    found: list[Payload] = []
    for tid in procfs.thread_ids(pid)[:_MAX_THREADS]:
        base = f"/proc/{pid}/task/{tid}"
        syscall, args = procfs.current_syscall(f"{base}/syscall")
        stat = procfs.stat(f"{base}/stat")
        if stat is None:
            continue  # ended between the listing and now
        switches = (procfs.status(f"{base}/status") or {}).get("voluntary_ctxt_switches", "0")
        found.append(
            {
                "tid": tid,
                "name": stat.name,
                "state": stat.state,
                "cpu": stat.cpu,
                "cpu_ticks": stat.cpu_ticks,
                "mono_s": round(clock.mono(), 4),
                **_scheduling(f"{base}/schedstat"),
                "switches": int(switches),
                "wchan": procfs.read_text(f"{base}/wchan") or "",
                "syscall": syscall,
                "args": args,
                "opens": opened_path(pid, syscall, args),
                "waits_on": waited_descriptors(pid, syscall, args),
                "sleep_left_s": sleep_left_s(pid, syscall, args),
                "timeout_left_s": timeout_left_s(pid, syscall, args),
            }
        )
    return found


def waited_descriptors(pid: int, syscall: str | None, args: list[int]) -> list[int]:
    """Return the descriptors a thread waits for in poll, select or epoll; empty when unknown."""
    if len(args) < 2:
        return []
    if syscall in ("poll", "ppoll") and 0 < args[1] <= 1024:
        packed = procfs.read_memory(pid, args[0], 8 * args[1])
        return (
            [struct.unpack_from("<i", packed, 8 * i)[0] for i in range(args[1])] if packed else []
        )
    if syscall in ("select", "pselect6") and args[1]:
        bits = procfs.read_memory(pid, args[1], 128)
        count = min(args[0], 1024)
        return [i for i in range(count) if bits[i // 8] >> (i % 8) & 1] if bits else []
    if syscall in ("epoll_wait", "epoll_pwait"):
        watched = procfs.descriptor_lines(pid, args[0]).get("tfd", [])
        return [int(one.split()[0]) for one in watched]
    return []


def opened_path(pid: int, syscall: str | None, args: list[int]) -> str | None:
    """Return the path that a thread is just opening: a FIFO without a peer, a dead disk."""
    at = {"open": 0, "openat": 1}.get(syscall or "")
    if at is None or len(args) <= at:
        return None
    for size in (4096, 256, 32):  # it may lie just before the end of a mapping
        packed = procfs.read_memory(pid, args[at], size)
        if packed is not None:
            return redact.text(packed.partition(b"\0")[0].decode("utf-8", "replace"))
    return None


def sleep_left_s(pid: int, syscall: str | None, args: list[int]) -> float | None:
    """Return the seconds until a sleep ends (a relative one: its length); None when unknown."""
    if syscall != "clock_nanosleep" or len(args) < 3:
        return None
    absolute = bool(args[1] & _ABSOLUTE)
    packed = procfs.read_memory(pid, args[2], 16) if args[0] == _MONOTONIC or not absolute else None
    if packed is None:
        return None
    seconds, nanoseconds = struct.unpack("<qq", packed)
    left: float = seconds + nanoseconds / 1e9 - (clock.mono() if absolute else 0)
    return round(max(0.0, left), 3)


def timeout_left_s(pid: int, syscall: str | None, args: list[int]) -> float | None:
    """Return the seconds after which a wait gives up (a poll: its whole length); None if never."""
    if syscall in ("poll", "epoll_wait", "epoll_pwait") and len(args) > _EPOLL_TIMEOUT:
        milliseconds = args[_POLL_TIMEOUT if syscall == "poll" else _EPOLL_TIMEOUT] & 0xFFFFFFFF
        return None if milliseconds >= 1 << 31 else milliseconds / 1000  # negative: for ever
    where = _TIMEOUTS.get(syscall or "")
    if where is None or len(args) <= where or not args[where]:
        return None
    packed = procfs.read_memory(pid, args[where], 16)
    if packed is None:
        return None
    seconds, fraction = struct.unpack("<qq", packed)
    left: float = seconds + fraction / (1e6 if syscall == "select" else 1e9)
    if syscall == "futex" and args[1] & _FUTEX_COMMAND == _FUTEX_WAIT_BITSET:  # until a moment
        left -= clock.now().timestamp() if args[1] & _FUTEX_REALTIME else clock.mono()
    return round(max(0.0, left), 3)


def is_python(pid: int, executable: str | None, status: dict[str, str]) -> bool | None:
    """Return whether its program or a library it has loaded is Python; None when hidden or dead."""
    if executable is None:
        if _INTERPRETER.match(status.get("Name", "")):
            return True
        # A kernel thread has no memory of its own; nor has a dead process, which had.
        kernel = "VmSize" not in status and status.get("State", "Z")[0] not in DEAD_STATES
        return False if kernel else None
    name = executable.removesuffix(" (deleted)").rpartition("/")[2]
    if _INTERPRETER.match(name):
        return True
    maps = procfs.maps(pid)
    return "libpython" in maps if maps else None


def limits(pid: int) -> dict[str, list[str]]:
    """Return the resource limits as name → [soft, hard]."""
    found: dict[str, list[str]] = {}
    for line in (procfs.read_text(f"/proc/{pid}/limits") or "").splitlines()[1:]:
        match = re.match(r"(.{25}) (\S+)\s+(\S+)", line)
        if match:
            found[match[1].strip()] = [match[2], match[3]]
    return found


def _scheduling(path: str) -> Payload:
    words = (procfs.read_text(path) or "").split()
    if len(words) < 2:  # a kernel without scheduler statistics
        return {"cpu_ns": None, "run_delay_ns": None}
    return {"cpu_ns": int(words[0]), "run_delay_ns": int(words[1])}


def _number(path: str) -> int | None:
    text = (procfs.read_text(path) or "").strip()
    return int(text) if text else None
