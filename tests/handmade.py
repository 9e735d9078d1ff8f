"""Handmade sections of a capture, for tests of the rules that read them."""

from __future__ import annotations

from typing import Any

from autopsy.diagnose import diagnose

UNTIMED = [0x1000, 0x189, 0, 0, 0, 0]
TIMED = [0x1000, 0x189, 0, 0x7F00, 0, 0]


def thread(tid: int = 10, **changes: Any) -> dict[str, Any]:
    return {
        "tid": tid,
        "name": "python",
        "state": "S",
        "cpu_ticks": 0,
        "switches": 0,
        "wchan": "",
        "syscall": None,
        "args": [],
        "waits_on": [],
        **changes,
    }


def frame(
    function: str, file: str = "/app/x.py", line: int = 1, source: str = "", **more: Any
) -> dict[str, Any]:
    return {"function": function, "file": file, "line": line, "source": source, **more}


def parked(tid: int = 10, **changes: Any) -> dict[str, Any]:
    """Make a thread that waits in a futex without a timeout."""
    return thread(tid, **{"syscall": "futex", "args": UNTIMED, **changes})


def sleeps(tid: int = 10, left_s: float | None = None, **changes: Any) -> dict[str, Any]:
    return thread(tid, syscall="clock_nanosleep", sleep_left_s=left_s, **changes)


def lock(identity: str = "0x1", holder: int | None = None, **changes: Any) -> dict[str, Any]:
    """Make a lock of the interpreter, named after its id, that a living thread holds."""
    return {
        "id": identity,
        "kind": "Lock",
        "name": f"lock {identity}",
        "locked": True,
        "holder_tid": holder,
        "holder_alive": None if holder is None else True,
        "shared": False,
        **changes,
    }


def wait(tid: int = 10, identity: str | None = "0x1", **changes: Any) -> dict[str, Any]:
    """Make what the interpreter's memory says that a thread waits for."""
    return {"tid": tid, "for": "lock", "lock": identity, "name": "", "timed": False, **changes}


def inside(locks: list[dict[str, Any]], *waits: dict[str, Any]) -> dict[str, Any]:
    """Make the section thread_locks."""
    return {"locks": locks, "waits": list(waits)}


def task(identity: str, *stack: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Make a pending task of an event loop, named after its id; nobody knows who wakes it."""
    return {
        "id": identity,
        "name": f"task {identity}",
        "stack": list(stack),
        "awaits": "Future",
        "state": "pending",
        "woken_by": "unknown",
        **changes,
    }


def backend(pid: int, **changes: Any) -> dict[str, Any]:
    """Make a session of PostgreSQL that belongs to the patient."""
    return {
        "pid": pid,
        "application": "shop",
        "state": "active",
        "wait_type": None,
        "wait": None,
        "transaction_s": 9.0,
        "state_s": 8.0,
        "query": "SELECT 1",
        "ours": True,
        "blocked_by": [],
        **changes,
    }


def motion(most: int, functions: int = 1, lines: int = 0, **changes: Any) -> dict[str, Any]:
    """Make the section motion: most of 100 looks found thread 10 on one instruction."""
    places = [
        {"file": "/app/x.py", "function": f"f{n % functions}", "line": n}
        for n in range(max(functions, lines))
    ]
    looked = {"tid": 10, "looks": 100, "instructions": 101 - most, "most": most, "places": places}
    return {"threads": [{**looked, **changes}]}


def child(pid: int = 77, **changes: Any) -> dict[str, Any]:
    return {
        "pid": pid,
        "depth": 1,
        "name": "yes",
        "state": "S",
        "wchan": "do_wait",
        "syscall": "wait4",
        "pipes": [],
        **changes,
    }


def seen(
    *first: dict[str, Any],
    second: list[dict[str, Any]] | None = None,
    stacks: list[list[dict[str, Any]]] | None = None,
    moved: bool = False,
    gil: bool | tuple[bool, bool] = False,
    **sections: Any,
) -> dict[str, Any]:
    """Sections of a capture: thread n has stack n (in the second sample n + 1 if moved)."""
    held = gil if isinstance(gil, tuple) else (gil, gil)
    samples = [
        {
            "at_ms": at,
            "method": "py-spy",
            "reason": "",
            "threads": [
                {"tid": one["tid"], "name": "", "owns_gil": has, "active": has, "stack": n + shift}
                for n, one in enumerate(first)
            ],
        }
        for at, shift, has in ((0, 0, held[0]), (250, int(moved), held[1]))
    ]
    return {
        "process": {"at_ms": 0.0, "threads": list(first), "status": {"TracerPid": "0"}},
        "movement": {
            "at_ms": 250.0,
            "alive": True,
            "reaped": False,
            "threads": list(first) if second is None else second,
        },
        "stacks": {"samples": samples if stacks else [], "stacks": stacks or []},
        **sections,
    }


def best(sections: dict[str, Any]) -> tuple[str, float]:
    found = diagnose(sections)[0]
    return found.code, found.confidence


def evidence(sections: dict[str, Any], code: str) -> tuple[str, ...]:
    """Return what one of the diagnoses is based on."""
    (one,) = [one for one in diagnose(sections) if one.code == code]
    return one.evidence


def codes(sections: dict[str, Any]) -> list[tuple[str, float]]:
    return [(one.code, one.confidence) for one in diagnose(sections)]


SOCKET = {
    "fd": 3,
    "inode": 1,
    "kind": "tcp",
    "state": "ESTABLISHED",
    "local": "127.0.0.1:1",
    "peer": "10.0.0.9:5432",
    "send_queue_bytes": 0,
    "receive_queue_bytes": 0,
}


def socket(fd: int = 3, **changes: Any) -> dict[str, Any]:
    return {**SOCKET, "fd": fd, **changes}
