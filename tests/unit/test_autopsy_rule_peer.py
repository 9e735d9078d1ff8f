"""Waits for the other end of a socket, a pipe, a terminal or a child: who is there decides."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import child, codes, evidence, frame, seen, socket, thread

CODE = [[frame("ask")]]
IN_LOOP = [[frame("ask"), frame("BaseEventLoop._run_once", "/lib/python3.11/asyncio/events.py")]]
FOR_A_CHILD = [[frame("_communicate", "/usr/lib/python3.11/subprocess.py"), frame("ask")]]
PIPE = "pipe:[5]"
WRITER = child(pipes=[PIPE], syscall="write", wchan="pipe_write")
STRANGER = {"pid": 500, "name": "tail", "end": "r"}
UNKNOWN = [("unknown", 0.0)]


def sockets(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"sockets": list(entries)}


def fds(target: str, fd: int = 3, flags: str = "0100000", **peers: Any) -> dict[str, Any]:
    listed = [{"fd": fd, "target": target, "flags": flags}]
    return {"count": 1, "limit": 1024, "fds": listed, "pipe_peers": {target: [], **peers}}


def calls(call: str, fd: int = 3, wchan: str = "", **sections: Any) -> dict[str, Any]:
    """Make a main thread in a system call on a descriptor."""
    looks = thread(syscall=call, args=[fd, 0], wchan=wchan)
    return seen(looks, **{"stacks": CODE, **sections})


def polls(**sections: Any) -> dict[str, Any]:
    """Make a main thread that polls descriptor 3."""
    return seen(thread(syscall="poll", waits_on=[3]), **{"stacks": CODE, **sections})


def wakes(switches: int, sections: dict[str, Any]) -> dict[str, Any]:
    look = sections["process"]["threads"][0]
    sections["movement"]["threads"] = [{**look, "switches": switches}]
    return sections


def below(parent: int, sections: dict[str, Any]) -> dict[str, Any]:
    sections["process"]["status"]["PPid"] = str(parent)
    return sections


def unix(**changes: Any) -> dict[str, Any]:
    return sockets(socket(kind="unix", local="", peer="", **changes))


LISTENS = socket(9, state="LISTEN", local="0.0.0.0:8080", peer="")
ACCEPTED = socket(local="10.0.0.1:8080", peer="10.0.0.9:40000")
JUST = socket(silent_ms=100, received_bytes=5)
CHILDREN = {"children": [child()]}
TABLE = {
    # system calls that say it all
    "a child's end": (calls("waitid"), [("blocked.child_process", 0.9)]),
    "the end of a child that is on the CPU": (
        calls("waitid", children={"children": [child(state="R")]}),
        [("blocked.child_process", 0.78)],
    ),
    "a lock on a file": (calls("flock"), [("blocked.file_lock", 0.9)]),
    "a part of a file": (calls("fcntl"), [("blocked.file_lock", 0.9)]),
    "the other end of a FIFO": (calls("openat", wchan="wait_for_partner"), [("blocked.ipc", 0.85)]),
    "an open of who knows what": (calls("open"), [("blocked.ipc", 0.4)]),
    "a semaphore of System V": (calls("semop"), [("deadlock.cross_process", 0.7)]),
    "a message queue": (calls("mq_timedreceive"), [("blocked.ipc", 0.7)]),
    "a connection": (calls("accept4"), [("none.idle", 0.55)]),
    # sockets
    "an answer": (calls("recvfrom", sockets=sockets(socket())), [("blocked.external", 0.9)]),
    "an answer at another place than before": (
        seen(
            thread(syscall="recvfrom", args=[3]),
            stacks=[*CODE, [frame("other")]],
            moved=True,
            sockets=sockets(socket()),
        ),
        [("blocked.external", 0.5)],
    ),
    "a socket of which only the name is known": (
        calls("sendto", fds=fds("socket:[9]")),
        [("blocked.external", 0.9)],
    ),
    "an answer, in the thread of an event loop": (
        calls("recvfrom", stacks=IN_LOOP, sockets=sockets(socket())),
        [("asyncio.loop_blocked", 0.9)],
    ),
    "answers at two places of an event loop": (
        seen(
            thread(syscall="recvfrom", args=[3]),
            stacks=[*IN_LOOP, [frame("other"), *IN_LOOP[0]]],
            moved=True,
            sockets=sockets(socket()),
        ),
        [("asyncio.loop_blocked", 0.5)],
    ),
    "data that keeps coming": (
        wakes(4, calls("recvfrom", sockets=sockets(socket()))),
        [("none.progressing", 0.62)],
    ),
    "data that has just come": (
        wakes(1, calls("recvfrom", sockets=sockets(JUST))),
        [("none.progressing", 0.6), ("blocked.external", 0.4)],
    ),
    "data that came just before the window": (
        calls("recvfrom", sockets=sockets(JUST)),
        [("blocked.external", 0.9)],
    ),
    "data that came long ago": (
        wakes(1, calls("recvfrom", sockets=sockets({**JUST, "silent_ms": 400}))),
        [("blocked.external", 0.9)],
    ),
    "nothing ever came": (
        wakes(1, calls("recvfrom", sockets=sockets({**JUST, "received_bytes": 0}))),
        [("blocked.external", 0.9)],
    ),
    "a connect has no data to wait for": (
        wakes(1, calls("connect", sockets=sockets(JUST))),
        [("blocked.external", 0.9)],
    ),
    "the next request of a client": (
        calls("recvfrom", sockets=sockets(ACCEPTED, LISTENS)),
        [("none.idle", 0.5), ("blocked.external", 0.48)],
    ),
    "a server beside a listener of its own at another port": (
        calls("recvfrom", sockets=sockets(socket(), LISTENS)),
        [("blocked.external", 0.9)],
    ),
    "a datagram of anybody": (
        calls("recvfrom", sockets=sockets(socket(kind="udp", peer="0.0.0.0:0"))),
        [("blocked.external", 0.55), ("none.idle", 0.4)],
    ),
    "a datagram without a peer": (
        calls("recvfrom", sockets=sockets(socket(kind="udp6", peer=""))),
        [("blocked.external", 0.55), ("none.idle", 0.4)],
    ),
    "a datagram of one peer": (
        calls("recvfrom", sockets=sockets(socket(kind="udp"))),
        [("blocked.external", 0.9)],
    ),
    "the other end of its own socket": (
        calls("recvfrom", sockets=unix(own_peer=4)),
        [("blocked.external", 0.6), ("blocked.ipc", 0.5)],
    ),
    "a server with a name": (
        calls(
            "recvfrom",
            children=CHILDREN,
            sockets=sockets(socket(kind="unix", peer="/run/x", peer_process={"pid": 77})),
        ),
        [("blocked.external", 0.88)],
    ),
    "a child at the other end of a pair": (
        calls(
            "recvfrom",
            children=CHILDREN,
            sockets=unix(peer_process={"pid": 77, "name": "yes"}),
        ),
        [("blocked.child_process", 0.85)],
    ),
    "a stranger at the other end of a pair": (
        calls(
            "recvfrom",
            children=CHILDREN,
            sockets=unix(peer_process={"pid": 500, "name": "cat"}),
        ),
        [("blocked.external", 0.88)],
    ),
    "a pair that may be a child's": (
        calls("recvfrom", children=CHILDREN, sockets=unix()),
        [("blocked.external", 0.55), ("blocked.child_process", 0.5)],
    ),
    "a pair that cannot be a dead child's": (
        calls("recvfrom", children={"children": [child(state="Z")]}, sockets=unix()),
        [("blocked.external", 0.88)],
    ),
    # pipes
    "a pipe of a child": (
        calls("read", fds=fds(PIPE), children={"children": [WRITER]}),
        [("blocked.child_process", 0.85)],
    ),
    "a pipe of a dead child": (
        calls("read", fds=fds(PIPE), children={"children": [{**WRITER, "state": "Z"}]}),
        [("blocked.ipc", 0.75)],
    ),
    "a pipe that nobody writes": (calls("read", fds=fds(PIPE)), [("blocked.ipc", 0.75)]),
    "a pipe that nobody writes, into several buffers": (
        calls("readv", fds=fds(PIPE)),
        [("blocked.ipc", 0.75)],
    ),
    "a pipe that another writes": (
        calls("read", fds=fds(PIPE, **{PIPE: [STRANGER]})),
        [("blocked.ipc", 0.75)],
    ),
    "a FIFO that nobody writes": (
        calls("read", wchan="anon_pipe_read", fds=fds("/tmp/fifo")),
        [("blocked.ipc", 0.75)],
    ),
    "a FIFO that nobody reads": (
        calls("write", wchan="pipe_write", fds=fds("/tmp/fifo", **{"/tmp/fifo": [STRANGER]})),
        [("blocked.ipc", 0.8)],
    ),
    "the output of a child, which a grandchild keeps open": (
        calls("read", stacks=FOR_A_CHILD, fds=fds(PIPE, **{PIPE: [STRANGER]})),
        [("blocked.child_process", 0.78)],
    ),
    "a full pipe that it splices to": (
        calls("splice", fds=fds(PIPE, **{PIPE: [STRANGER]})),
        [("blocked.ipc", 0.8)],
    ),
    "its full output": (
        calls("write", 1, fds=fds(PIPE, 1)),
        [("blocked.supervisor_pipe", 0.87)],
    ),
    "its full error output": (
        calls("write", 2, fds=fds(PIPE, 2, **{PIPE: [STRANGER]})),
        [("blocked.supervisor_pipe", 0.87)],
    ),
    "a full pipe that its parent reads": (
        below(500, calls("write", fds=fds(PIPE, **{PIPE: [STRANGER]}))),
        [("blocked.supervisor_pipe", 0.87)],
    ),
    "a full pipe that another reads": (
        calls("write", fds=fds(PIPE, **{PIPE: [STRANGER]})),
        [("blocked.ipc", 0.8)],
    ),
    "a full pipe that only it has open": (
        calls("write", fds=fds(PIPE, **{PIPE: [{"pid": 10, "name": "python", "end": "r"}]})),
        [("blocked.supervisor_pipe", 0.6), ("blocked.ipc", 0.55)],
    ),
    "a full pipe that a child reads": (
        calls("write", fds=fds(PIPE), children={"children": [child(pipes=[PIPE])]}),
        [("blocked.child_process", 0.85)],
    ),
    # what is no pipe and no socket
    "a terminal it was started in": (calls("read", fds=fds("/dev/pts/1")), [("blocked.ipc", 0.6)]),
    "a terminal it made for a child": (
        calls(
            "read",
            children=CHILDREN,
            fds=fds("/dev/ptmx", **{"/dev/pts/4": [{"pid": 77, "name": "yes", "end": "rw"}]}),
        ),
        [("blocked.child_process", 0.8)],
    ),
    "a terminal it made for nobody": (
        calls("read", children=CHILDREN, fds=fds("/dev/ptmx")),
        [("blocked.ipc", 0.6)],
    ),
    "an eventfd": (
        calls("read", fds=fds("anon_inode:[eventfd]")),
        [("blocked.ipc", 0.6), ("wait.no_waker", 0.55)],
    ),
    "a timer": (calls("read", fds=fds("anon_inode:[timerfd]")), [("blocked.sleep", 0.6)]),
    "changes of files": (calls("read", fds=fds("anon_inode:inotify")), [("none.idle", 0.55)]),
    "an ordinary file": (calls("read", fds=fds("/var/data")), UNKNOWN),
    "a write to an eventfd": (calls("write", fds=fds("anon_inode:[eventfd]")), UNKNOWN),
    "a descriptor nobody knows": (calls("read", -1), UNKNOWN),
    # polls
    "a poll for connections": (polls(sockets=sockets({**LISTENS, "fd": 3})), [("none.idle", 0.55)]),
    "a poll for an answer": (polls(sockets=sockets(socket())), [("blocked.external", 0.75)]),
    "a poll that wakes": (
        wakes(9, polls(sockets=sockets(socket()))),
        [("none.progressing", 0.4)],
    ),
    "a poll of nothing known": (polls(), UNKNOWN),
    "a poll of a child's output": (
        polls(fds=fds(PIPE), children={"children": [WRITER]}),
        [("blocked.child_process", 0.8)],
    ),
    "a poll of a stranger's output": (
        polls(fds=fds(PIPE, **{PIPE: [STRANGER]})),
        [("blocked.ipc", 0.65), ("blocked.child_process", 0.6)],
    ),
    "a poll of the output of a child, which a grandchild keeps open": (
        polls(stacks=FOR_A_CHILD, fds=fds(PIPE, **{PIPE: [STRANGER]})),
        [("blocked.child_process", 0.75), ("blocked.ipc", 0.6)],
    ),
    "a poll of data that has just come": (
        wakes(1, polls(sockets=sockets(JUST))),
        [("none.progressing", 0.6), ("blocked.external", 0.4)],
    ),
    "a poll of nothing": (
        seen(thread(syscall="poll"), stacks=CODE),
        [("wait.no_waker", 0.6)],
    ),
    "an epoll of nothing known": (seen(thread(syscall="epoll_wait"), stacks=CODE), UNKNOWN),
    "a poll of pipes of its own": (polls(fds=fds(PIPE)), [("none.idle", 0.4)]),
}


@pytest.mark.parametrize(("sections", "expected"), TABLE.values(), ids=TABLE)
def test_what_it_waits_for_names_the_cause(
    sections: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert codes(sections) == expected


LINES = {
    "an answer": "sockets: descriptor 3 is tcp ESTABLISHED, peer 10.0.0.9:5432, "
    "0 bytes not taken by it",
    "a socket of which only the name is known": "fds: 3 is socket:[9]",
    "data that keeps coming": "movement: 4 wake-ups: what it waits for keeps coming",
    "data that has just come": "sockets, movement: data has just come, 1 wake-ups",
    "the next request of a client": (
        "sockets: it was accepted here: a client that asks for nothing at the moment"
    ),
    "a datagram of anybody": (
        "sockets: no peer is set: it may wait for an answer or for anybody's message"
    ),
    "the other end of its own socket": "sockets: the other end is its own descriptor 4",
    "a child at the other end of a pair": "sockets: the other end is its child 77 (yes)",
    "a pair that may be a child's": "children: a local socket, whose other end may be a child's",
    "a pipe of a child": (
        "children: pipe:[5] is also open in child 77 (yes), state S in pipe_write"
    ),
    "a pipe that nobody writes": "fds: 3 is pipe:[5], also open in no other process",
    "a full pipe that another reads": "fds: 3 is pipe:[5], also open in 500 (tail, r)",
    "a full pipe that only it has open": "fds: 3 is pipe:[5], also open in no other process",
    "a terminal it was started in": "fds: it waits for somebody to type",
    "a terminal it made for a child": "fds: at the terminal /dev/pts/4 is its child 77 (yes)",
    "an eventfd": "fds: 3 is anon_inode:[eventfd]",
    "a poll of a stranger's output": ("fds: the pipes it waits at are also open in 500 (tail, r)"),
    "a poll of pipes of its own": "fds: the pipes it waits at are its own",
    "a poll that wakes": "movement: 9 wake-ups",
    "a child's end": "children: none was seen",
}


@pytest.mark.parametrize(("row", "line"), LINES.items(), ids=LINES)
def test_the_decisive_line_is_among_the_evidence(row: str, line: str) -> None:
    sections, expected = TABLE[row]
    assert line in evidence(sections, expected[0][0])


def held(pid: int, **changes: Any) -> dict[str, Any]:
    return {"id": "1", "waiting": False, "pid": pid, **changes}


@pytest.mark.parametrize(
    ("locks", "line"),
    [
        ([], "locks: held by nobody the kernel names"),
        (
            [held(10, waiting=True), held(81, command_line=["cron", "-f"])],
            "locks: held by pid 81 (cron -f)",
        ),
        (
            [held(10, waiting=True), held(10), held(82, id="2", command_line=["vi"])],
            "locks: held by pid 10 ()",
        ),
        (
            [held(83, waiting=True, command_line=["x"]), held(10)],
            "locks: held by nobody the kernel names",
        ),
    ],
    ids=["nothing seen", "by another", "by itself", "the patient is the holder"],
)
def test_the_holder_of_a_file_lock_is_named(locks: list[dict[str, Any]], line: str) -> None:
    sections = calls("flock", locks={"locks": locks})
    assert evidence(sections, "blocked.file_lock") == (
        "process: thread 10 (python) state S in flock (wchan )",
        line,
        "stacks: ask (/app/x.py:1)",
    )
