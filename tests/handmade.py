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
    function: str, file: str = "/app/x.py", line: int = 1, source: str = ""
) -> dict[str, Any]:
    return {"function": function, "file": file, "line": line, "source": source}


def seen(
    *first: dict[str, Any],
    second: list[dict[str, Any]] | None = None,
    stacks: list[list[dict[str, Any]]] | None = None,
    moved: bool = False,
    gil: bool = False,
    **sections: Any,
) -> dict[str, Any]:
    """Sections of a capture: thread n has stack n (in the second sample n + 1 if moved)."""
    samples = [
        {
            "at_ms": at,
            "method": "py-spy",
            "reason": "",
            "threads": [
                {"tid": one["tid"], "name": "", "owns_gil": gil, "active": gil, "stack": n + shift}
                for n, one in enumerate(first)
            ],
        }
        for at, shift in ((0, 0), (250, int(moved)))
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
