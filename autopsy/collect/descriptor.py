"""The patient's open descriptors, what is special about each, and who is at the other end.

Invariant: no stat and no open of what a descriptor points to: on a dead file system either would
hang beyond SIGKILL. readlink and fdinfo tell enough.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from autopsy import clock
from autopsy.collect import procfs
from autopsy.collect.holder import Holders, opened_by
from autopsy.collect.patient import Patient
from autopsy.collect.process import limits
from autopsy.section import Payload

_MAX_LISTED = 2000
# Read in full: 0.1 ms for each on a busy host; the thousandth file says nothing new.
_MAX_FILES = 500
_MAX_GROUPS = 20
_MAX_WATCHED = 256
_MAX_PIPES = 100
_MAX_ENDS = 16
_SEARCH_S = 0.1
_ACCESS_MODE, _WRITE_ONLY, _READ_WRITE = 0o3, 0o1, 0o2
_TERMINALS = ("/dev/ptmx", "/dev/pts/ptmx")
# What tempfile makes up, and any number: leaked files differ in nothing else.
_MADE_UP = re.compile(r"(?<=tmp)[a-z0-9_]{8}(?![a-z0-9_])|\d+")
# Lines of fdinfo that say what an anonymous descriptor is about, as we name them.
_DETAILS = {
    "eventfd-count": "count",
    "Pid": "pid",
    "sigmask": "signals",
    "it_value": "left",
    "it_interval": "interval",
    "ticks": "ticks",
    "tty-index": "terminal",
}


def collector(holders: Holders) -> Callable[[Patient], Payload]:
    """Return the collector of the descriptors; it raises Skipped when the kernel hides them.

    Shapes: fds: fd, target, position, flags, detail (of an epoll `watches`); groups: target with
    what is made up in it as `*`, count; pipe_peers: of a pipe, a terminal or a
    FIFO that a thread is in, who else has it open: pid, name, end, state, itself.
    """

    def collect(patient: Patient) -> Payload:
        patient.require_open()
        pid = patient.pid
        numbers = procfs.descriptors(pid)
        listed = procfs.links(pid, _MAX_LISTED)
        soft = limits(pid).get("Max open files", ["0", "0"])[0]
        fds = [
            _described(pid, number, target)
            if index < _MAX_FILES or not target.startswith(("/", "socket:"))
            else {"fd": number, "target": target, "position": None, "flags": ""}
            for index, (number, target) in enumerate(listed)
        ]
        peers = {**dict(_peers(pid, fds, holders)), **dict(_fifo_peers(pid))}
        return {
            "count": len(numbers),
            "limit": int(soft) if soft.isdigit() else None,
            "fds": fds,
            "groups": groups([target for _, target in listed]),
            "pipe_peers": peers,
        }

    return collect


def groups(targets: list[str]) -> list[Payload]:
    """Return how many descriptors point to the same kind of thing, the most frequent first."""
    shapes = Counter(map(_shape, targets))
    only = {_shape(target): target for target in targets}
    return [
        # One of its kind is named in full.
        {"target": only[shape] if count == 1 else shape, "count": count}
        for shape, count in shapes.most_common(_MAX_GROUPS)
    ]


def end_of(pid: int, number: int) -> str:
    """Return which end of a pipe a descriptor is: read or write; empty when it is gone."""
    flags = procfs.descriptor_lines(pid, number).get("flags", [""])[0]
    if not flags:
        return ""
    return "write" if int(flags, 8) & _ACCESS_MODE == _WRITE_ONLY else "read"


def _shape(target: str) -> str:
    if not target.startswith("/"):
        return target.partition(":")[0] if target.endswith("]") and ":[" in target else target
    directory, slash, name = target.rpartition("/")
    return directory + slash + _MADE_UP.sub("*", name)


def _described(pid: int, number: int, target: str) -> Payload:
    lines = procfs.descriptor_lines(pid, number)
    position = lines.get("pos", [""])[0]
    entry: Payload = {
        "fd": number,
        "target": target,
        "position": int(position) if position.isdigit() else None,
        "flags": lines.get("flags", [""])[0],
    }
    detail: Payload = {ours: lines[name][0] for name, ours in _DETAILS.items() if name in lines}
    if watched := lines.get("tfd"):
        detail["watches"] = [int(one.split()[0]) for one in watched[:_MAX_WATCHED]]
    return entry | ({"detail": detail} if detail else {})


def _peers(pid: int, fds: list[Payload], holders: Holders) -> Iterator[tuple[str, list[Payload]]]:
    pipes: dict[str, str] = {}
    for one in fds:
        target, terminal = one["target"], (one.get("detail") or {}).get("terminal")
        if target.startswith("pipe:"):
            mode = int(one["flags"] or "0", 8) & _ACCESS_MODE
            own = "write" if mode == _WRITE_ONLY else "read"
            # Opened anew through /proc or /dev/stdout a pipe can be both.
            pipes[target] = "both" if pipes.get(target, own) != own or mode == _READ_WRITE else own
        elif terminal is not None and target in _TERMINALS:
            pipes[f"/dev/pts/{terminal}"] = "master"
        elif target.startswith("/dev/pts/"):
            pipes.setdefault(target, "terminal")
    for target, own in list(pipes.items())[:_MAX_PIPES]:
        ends = _terminal_ends if target.startswith("/dev/") else _pipe_ends
        seen: dict[tuple[int, str], Payload] = {}
        for other, end in ends(pid, target, holders):
            if other != pid or (own == "both" and end):
                seen.setdefault((other, end), _peer(pid, other, end))
        yield target, list(seen.values())[:_MAX_ENDS]


def _fifo_peers(pid: int) -> Iterator[tuple[str, list[Payload]]]:
    """A FIFO has a name like any file: only a thread that waits inside of it shows what it is."""
    seen: set[str] = set()
    for tid in procfs.thread_ids(pid)[:_MAX_PIPES]:
        syscall, args = procfs.current_syscall(f"/proc/{pid}/task/{tid}/syscall")
        wchan = procfs.read_text(f"/proc/{pid}/task/{tid}/wchan") or ""
        if "pipe_" not in wchan or syscall not in ("read", "write", "readv", "writev"):
            continue
        target = procfs.link(f"/proc/{pid}/fd/{args[0]}") or ""
        if target.startswith("/") and target not in seen:
            seen.add(target)
            ends = [
                _peer(pid, other, end_of(other, number))
                for other, number in opened_by(target, clock.mono() + _SEARCH_S)
                if other != pid
            ]
            yield target, ends[:_MAX_ENDS]


def _pipe_ends(patient: int, target: str, holders: Holders) -> Iterator[tuple[int, str]]:
    for pid, number in holders.of(patient, target):
        yield pid, end_of(pid, number)


def _terminal_ends(patient: int, target: str, holders: Holders) -> Iterator[tuple[int, str]]:
    index = target.rpartition("/")[2]
    for master in _TERMINALS:
        for pid, number in holders.of(patient, master):
            if procfs.descriptor_lines(pid, number).get("tty-index") == [index]:
                yield pid, "master"
    for pid, _ in holders.of(patient, target):
        yield pid, "terminal"


def _peer(patient: int, pid: int, end: str) -> Payload:
    stat = procfs.stat(f"/proc/{pid}/stat")
    name, state = (stat.name, stat.state) if stat is not None else ("", "")
    return {"pid": pid, "name": name, "end": end, "state": state, "itself": pid == patient}
