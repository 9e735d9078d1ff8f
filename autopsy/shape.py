"""What the rules may count on in a section: each value there, and of the kind they expect.

Secret: how a payload with gaps (cut by the cap of a bundle, of another version) is made whole: a
mark of what was cut is no entry, an entry without what makes it one is left out, a value of a
wrong kind is as if it were not there. Pure; whole payloads stay as they are. For `case` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autopsy.section import Payload

# Larger than any address; keeps out what is not a number, too.
_MOST = 2.0**64


@dataclass(frozen=True, slots=True)
class Needed:
    """Without it the entry that it is in is left out."""

    shape: Any


@dataclass(frozen=True, slots=True)
class Maybe:
    """It may be absent."""

    shape: Any


@dataclass(frozen=True, slots=True)
class Digits:
    """A number in words, in this base; it may be absent."""

    base: int


@dataclass(frozen=True, slots=True)
class Each:
    """An object whose values have this shape, whatever their names."""

    shape: Any


# In the shapes below any other value is both the kind that is expected and what stands in for it;
# [shape] is a list of any length, (shape, …) one that is at least that long.
_NUMBER, _TEXT, _FLAG = Maybe(0), Maybe(""), Maybe(False)
_PID, _FD, _TID = Needed(0), Needed(0), Needed(0)
_FRAME = {
    "function": Needed(""),
    "file": "",
    "line": 0,
    "source": _TEXT,
    "native": _FLAG,
    "inside": Maybe([""]),
    "loop": _TEXT,
}
_LOOK = {
    "tid": _TID,
    "name": "",
    "state": "?",
    "wchan": "",
    "syscall": None,
    "args": [0],
    "waits_on": [0],
    "cpu_ticks": 0,
    "switches": 0,
    **dict.fromkeys(("sleep_left_s", "timeout_left_s"), _NUMBER),
    **dict.fromkeys(("mono_s", "cpu_ns", "run_delay_ns"), _NUMBER),
}
_LATER = {
    **dict.fromkeys(("tid", "cpu_ticks", "switches"), Needed(0)),
    **dict.fromkeys(("state", "wchan"), Needed("")),
    **dict.fromkeys(("mono_s", "cpu_ns", "run_delay_ns"), _NUMBER),
}
_SAMPLE = {"threads": Maybe([{"tid": _TID, "name": "", "owns_gil": False, "stack": -1}])}
_PLACE = dict.fromkeys(("file", "function"), Needed(""))
_MOTION = {
    **dict.fromkeys(("tid", "looks"), Needed(0)),
    **dict.fromkeys(("instructions", "most"), 0),
    "places": [_PLACE],
    "calls": _FLAG,
    "instant": _NUMBER,
}
_SOCKET = {
    "fd": _FD,
    **dict.fromkeys(("kind", "state", "peer"), ""),
    "local": _TEXT,
    **dict.fromkeys(("silent_ms", "received_bytes", "send_queue_bytes", "own_peer"), _NUMBER),
    "peer_process": Maybe({"pid": _NUMBER, "name": ""}),
}
_CHILD = {
    "pid": _PID,
    "depth": 0,
    **dict.fromkeys(("name", "wchan"), ""),
    "state": "?",
    "syscall": None,
    "pipes": [""],
}
_LOCK = {
    "id": Needed(""),
    "name": _TEXT,
    **dict.fromkeys(("locked", "holder_alive", "shared", "left", "orphaned"), _FLAG),
    "holder_tid": _NUMBER,
    "held_at": Maybe({}),
}
_WAIT = {
    "tid": _TID,
    **dict.fromkeys(("for", "lock", "name"), _TEXT),
    "joins_tid": _NUMBER,
}
_TASK = {
    "id": Needed(""),
    **dict.fromkeys(("name", "awaits", "awaits_task", "waits_lock", "waits_name"), _TEXT),
    "stack": [_FRAME],
    "holds": Maybe([{"id": Needed("")}]),
    "state": "pending",
    "woken_by": _TEXT,
}
_POOL = {"kind": "", **dict.fromkeys(("checked_out", "size", "max_overflow"), _NUMBER)}
_BACKEND = {
    "pid": _PID,
    **dict.fromkeys(("application", "wait", "query"), _TEXT),
    **dict.fromkeys(("state", "wait_type"), None),
    **dict.fromkeys(("transaction_s", "state_s"), _NUMBER),
    "ours": _FLAG,
    "blocked_by": Maybe([0]),
}
_CLIENT = {"client": "", "command": "", "idle_s": 0, "flags": _TEXT}
_KEY = {"key": Needed(""), "value": "", "ttl_s": _NUMBER}
_HOLDER = {"pid": _PID, "command_line": Maybe([""])}
_SHAPES: Mapping[str, Any] = {
    "process": {
        "at_ms": _NUMBER,
        "threads": Maybe([_LOOK]),
        "status": Maybe({"PPid": Digits(10), "SigCgt": Digits(16), "TracerPid": _TEXT}),
        **dict.fromkeys(("python", "frozen", "hidden"), _FLAG),
    },
    "movement": {"at_ms": _NUMBER, "alive": True, "reaped": False, "threads": Maybe([_LATER])},
    "stacks": {"samples": Maybe([_SAMPLE]), "stacks": Maybe([[_FRAME]])},
    "motion": {"threads": Maybe([_MOTION])},
    "fds": {
        **dict.fromkeys(("count", "limit"), _NUMBER),
        "fds": Maybe([{"fd": _FD, "target": "", "flags": Digits(8)}]),
        "pipe_peers": Maybe(Each([{"pid": _PID, "name": "", "end": ""}])),
    },
    "sockets": {"sockets": Maybe([_SOCKET])},
    "children": {"children": Maybe([_CHILD])},
    "locks": {
        "locks": Maybe(
            [{"id": Needed(""), "waiting": False, "pid": 0, "command_line": Maybe([""])}]
        )
    },
    "memory": {
        "shared_mappings": Maybe([{"start": Needed(0), "end": Needed(0)}]),
        "rollup": Maybe({"Pss_Shmem": _NUMBER}),
        "anonymous_bytes": _NUMBER,
    },
    "growth": {"points": Maybe([(0, 0)])},
    "heap": {
        **dict.fromkeys(("python_bytes", "share"), _NUMBER),
        "types": Maybe([{"type": Needed(""), "count": 0, "bytes": 0}]),
        "containers": Maybe([{"name": "", "type": "", "length": Needed(0)}]),
    },
    "thread_locks": {"locks": Maybe([_LOCK]), "waits": Maybe([_WAIT])},
    "asyncio": {
        "total": _NUMBER,
        "tasks": Maybe([_TASK]),
        "shapes": Maybe([{"count": Needed(0), "stack": [_FRAME]}]),
        "cycles": Maybe([[""]]),
    },
    "pools": {"pools": Maybe([_POOL])},
    "databases": {
        "postgresql": Maybe([{"backends": Maybe([_BACKEND])}]),
        "redis": Maybe([{"clients": Maybe([_CLIENT]), "locks": Maybe([_KEY])}]),
        "sqlite": Maybe([{"file": Needed(""), "held_by": Maybe([_HOLDER])}]),
        "local_servers": Maybe([{"pid": _PID, "title": _TEXT}]),
    },
    "host": {"cgroup": Maybe({"cpu": Maybe({"throttled_ratio": _NUMBER})})},
}


class _Unfit(Exception):
    """A value is not of the kind that is expected there; never leaves this module."""


def fitted(sections: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the sections as the rules may read them; one that is no object is left out."""
    return {
        name: _object(payload, _SHAPES.get(name, {}))
        for name, payload in sections.items()
        if isinstance(payload, dict)
    }


def _fit(value: Any, shape: Any) -> Any:
    """Return the value without what does not fit; raises _Unfit when nothing of it does."""
    match shape:
        case dict():
            return _object(_of(dict, value), shape)
        case list():
            return _entries(_of(list, value), shape[0])
        case tuple():
            if len(_of(list, value)) < len(shape):
                raise _Unfit
            return [_fit(one, kind) for one, kind in zip(value, shape, strict=False)]
        case Each(each):
            return {key: _fit(one, each) for key, one in _of(dict, value).items() if key != "cut"}
        case Digits(base):
            return _digits(_of(str, value), base)
        case str():
            return _of(str, value)
        case None:
            return None if value is None else _of(str, value)
        case _:
            return _number(value)


def _object(value: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    found = dict(value)
    for key, kind in shape.items():
        needed, optional = isinstance(kind, Needed), isinstance(kind, Maybe | Digits)
        if optional and key not in value:
            continue
        try:
            found[key] = _fit(
                value.get(key), kind.shape if needed or isinstance(kind, Maybe) else kind
            )
        except _Unfit:
            if needed:
                raise
            if optional:
                del found[key]
            else:
                found[key] = [] if isinstance(kind, list) else kind
    return found


def _entries(values: list[Any], shape: Any) -> list[Any]:
    found = []
    for value in values:
        try:
            found.append(_fit(value, shape))
        except _Unfit:
            if isinstance(shape, list):  # others say by its number which one they mean
                found.append([])
    return found


def _digits(value: str, base: int) -> str:
    try:
        int(value, base)
    except ValueError:
        raise _Unfit from None
    return value


def _number(value: Any) -> Any:
    if not isinstance(value, int | float) or not -_MOST < value < _MOST:
        raise _Unfit
    return value


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise _Unfit
    return value
