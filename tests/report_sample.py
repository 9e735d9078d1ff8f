"""One capture with every section that a report knows, for tests of the report."""

from __future__ import annotations

from typing import Any

from autopsy.bundle import Heading
from autopsy.cause import Diagnosis
from autopsy.section import Section, Status

APP, LIBRARY = "/srv/shop/orders.py", "/usr/lib/python3.11/threading.py"


def frame(function: str, line: int, file: str = APP, **more: Any) -> dict[str, Any]:
    return {"function": function, "file": file, "line": line, **more}


HEADING = Heading(
    pid=4711, start_ticks=1, why="no progress for 300 s", host="worker-3", python="3.11.7",
    captured_at="2026-11-29T21:00:00.000+00:00", budget_s=10.0, duration_ms=287.0,
    status="partial", tools={"autopsy": "0.1", "py-spy": "py-spy 0.4.1"},
    diagnosis=(
        Diagnosis(
            "deadlock.in_process", 0.95,
            ("thread_locks: MainThread waits for Account._lock, held by Thread-1 (transfer)",),
        ),
        Diagnosis("blocked.db_lock", 0.6, ("databases: backend 812 waits for transactionid",)),
    ),
    is_python=True,
)  # fmt: skip

FACTS = {
    "task_id": "task_1", "attempt": 2, "type": "transfer", "queue": "default",
    "submitted_by": "anna", "node_id": "n1", "worker_id": "w1", "pid": 4711,
    "limits": {"timeout_s": 30.0, "soft_timeout_s": 25.5, "cancel_grace_s": 10},
    "stop_wish": {"kind": "cancel", "by": "anna", "reason": "wrong month"},
    "looks": [
        {
            "age_s": n / 2, "beats": n, "progress_done": 46.0, "progress_changes": 2,
            "rss_bytes": 2**20 * n, "cpu_s": 0.1 * n, "proc_state": "S",
        }
        for n in range(1, 13)
    ],
}  # fmt: skip

_WAIT_A = [
    frame("transfer", 41, source="with target._lock:", inside=["source._lock"]),
    frame("handle", 80, source="transfer(a, b)"),
    frame("run", 975, LIBRARY),
]
_WAIT_B = [frame("transfer", 41), frame("refund", 97), frame("run", 975, LIBRARY)]
_BEFORE = [frame("read", 30), frame("poll", 55), frame("run", 975, LIBRARY)]
_AFTER = [frame("sleep", 12, "<frozen time>"), frame("poll", 57), frame("run", 975, LIBRARY)]

PAYLOADS: dict[str, dict[str, Any]] = {
    "facts": FACTS,
    "process": {
        "name": "python", "command_line": ["python", "-m", "shop.worker"],
        "status": {"State": "S (sleeping)", "VmRSS": "54321 kB", "Threads": "4"},
        "threads": [
            {
                "tid": 4711 + n, "name": "python", "state": "S", "syscall": syscall,
                "wchan": "futex_wait_queue", "args": [7, 0], "waits_on": [],
            }
            for n, syscall in enumerate(("futex", "futex", "recvfrom"))
        ],
    },
    "stacks": {
        "stacks": [_WAIT_A, _WAIT_B, _BEFORE, _AFTER],
        "samples": [
            {
                "at_ms": at, "method": "py-spy --nonblocking", "reason": "",
                "threads": [
                    {"tid": 4711, "name": "MainThread", "owns_gil": False, "stack": 0},
                    {"tid": 4712, "name": "Thread-1 (transfer)", "owns_gil": False, "stack": 1},
                    {"tid": 4713, "name": "poller", "owns_gil": True, "stack": third},
                ],
            }
            for at, third in ((12.0, 2), (262.0, 3))
        ],
    },
    "thread_locks": {
        "python": "3.11.7",
        "locks": [
            {
                "id": "0x1", "kind": "Lock", "name": "Account._lock", "locked": True,
                "holder_tid": 4712, "holder_name": "Thread-1 (transfer)", "holder_alive": True,
                "held_at": frame("transfer", 40), "count": 1, "shared": False,
            },
            {
                "id": "0x2", "kind": "RLock", "name": "Ledger._lock", "locked": True,
                "holder_tid": 4711, "holder_name": "MainThread", "holder_alive": True,
                "held_at": frame("transfer", 40), "count": 1, "shared": False,
            },
        ],
        "waits": [
            {
                "tid": 4711, "thread": "MainThread", "for": "lock", "lock": "0x1",
                "name": "Account._lock", "timed": False, "joins_tid": None, "joins": None,
                "at": frame("transfer", 41),
            },
            {
                "tid": 4712, "thread": "Thread-1 (transfer)", "for": "lock", "lock": "0x2",
                "name": "Ledger._lock", "timed": False, "joins_tid": None, "joins": None,
                "at": frame("transfer", 41),
            },
            *(
                {
                    "tid": 4720 + n, "thread": f"pool-{n}", "for": "lock", "lock": "0x2",
                    "name": "Ledger._lock", "timed": False, "joins_tid": None, "joins": None,
                    "at": frame("report", 12),
                }
                for n in range(6)
            ),
        ],
        "cycles": [[4711, 4712]],
        "threads": [],
    },
    "asyncio": {
        "total": 2, "loops": 1, "timers": 0, "watched_fds": 1, "left_out": 0, "cycles": [],
        "shapes": [{"count": 2, "stack": [frame("fetch", 5)]}],
        "tasks": [
            {
                "id": "0xa", "name": "Task-7", "stack": [frame("fetch", 5)], "state": "pending",
                "awaits": "Lock.acquire", "awaits_task": None, "waits_lock": "0xc",
                "waits_name": "Lock cache", "holds": [], "woken_by": "nobody",
            },
            {
                "id": "0xb", "name": "Task-8", "stack": [frame("fetch", 9)], "state": "pending",
                "awaits": "Future", "awaits_task": None, "waits_lock": None, "waits_name": "",
                "holds": [{"id": "0xc", "kind": "Lock", "name": "cache"}], "woken_by": "io",
            },
        ],
    },
    "ring": {
        "seconds": 300.0, "samples": 300, "gaps": [[200.0, 20.0]],
        "tasks": {"total_now": 9, "shapes": [], "series": [[-300.0, 1], [-100.0, 5], [0.0, 9]]},
        "stacks": [_WAIT_A, _BEFORE, _AFTER],
        "threads": [
            {"tid": 4711, "name": "MainThread", "runs": [[300.0, 1, 40], [260.0, 0, 240]]},
            {
                "tid": 4713, "name": "poller",
                "runs": [[300.0 - 15 * n, 1 + n % 2, 15] for n in range(20)],
            },
        ],
    },
    "databases": {
        "postgresql": [
            {
                "server": "127.0.0.1:5432", "status": "ok", "reason": "",
                "matched_by": ["socket", "application name"],
                "backends": [
                    {
                        "pid": 812, "application": "worker/task_1", "client": "127.0.0.1:50112",
                        "user": "shop", "state": "active", "wait_type": "Lock",
                        "wait": "transactionid", "transaction_s": 301.0, "state_s": 300.0,
                        "query": "UPDATE account SET balance = $1 WHERE id = $2", "ours": True,
                        "depth": 0, "blocked_by": [809], "locks": [],
                    },
                    {
                        "pid": 809, "application": "psql", "client": "local", "user": "ops",
                        "state": "idle in transaction", "wait_type": "Client",
                        "wait": "ClientRead", "transaction_s": 912.0, "state_s": 900.0,
                        "query": "SELECT * FROM account FOR UPDATE", "ours": False, "depth": 1,
                        "blocked_by": [], "locks": [],
                    },
                ],
            }
        ],
        "redis": [
            {
                "server": "127.0.0.1:6379", "status": "refused", "reason": "NOAUTH",
                "clients": [], "locks": [{"key": "lock:a", "value": "host-9", "ttl_s": 12.0}],
            }
        ],
        "sqlite": [
            {
                "file": "/srv/shop/a.db", "fd": 9, "journal": "wal",
                "held_by": [{"pid": 99, "command_line": ["python", "x.py"], "kind": "write"}],
            }
        ],
        "local_servers": [{"pid": 812, "name": "postgres", "title": "postgres: UPDATE waiting"}],
    },
    "memory": {
        "statm": {"resident": 54 * 2**20}, "rollup": {"Pss": 40000}, "uss_bytes": 30 * 2**20,
        "limits": {"cgroup_bytes": 2**30, "cgroup_used_bytes": 2**29},
    },
    "growth": {
        "source": "ring",
        "points": [[-300.0 + 5 * n, (30 + n) * 2**20, 4, 10 + n // 8] for n in range(60)],
        "baseline": {"at_age_s": -300.0, "rss_bytes": 30 * 2**20, "threads": 3, "fds": 9},
    },
    "heap": {
        "objects": 91234, "seen": 9000, "partial": True, "share": 0.1,
        "python_bytes": 20 * 2**20,
        "containers": [{"name": "orders.CACHE", "type": "dict", "length": 50000}],
        "types": [{"type": "orders.Row", "count": 50000, "bytes": 9 * 2**20}],
        "buffers": [{"type": "bytes", "count": 300, "bytes": 7 * 2**20}],
    },
    "host": {
        "cpus": 2, "load": [8.7, 7.5, 6.4], "runnable": 16,
        "memory": {"total_bytes": 2**34, "available_bytes": 2**33},
        "pressure": {"cpu": {"some": {"window_ratio": 0.99}}, "io": {"some": {"window_ratio": 0}}},
        "cgroup": {"cpu": {"throttled_ratio": 0.5}, "pressure": {}},
    },
    "motion": {
        "threads": [
            {
                "tid": 4713, "looks": 24, "instructions": 7, "stacks": 3,
                "places": [frame("poll", 57, looks=20), frame("poll", 55, looks=4)],
            },
            {"tid": 4711, "looks": 24, "instructions": 1, "stacks": 1, "places": []},
        ]
    },
    "pools": {
        "pools": [
            {
                "kind": "sqlalchemy.QueuePool", "size": 5, "checked_out": 5, "overflow": 0,
                "max_overflow": 0, "waiting": 2, "timeout_s": 30,
            }
        ]
    },
    "logs": {
        "records": [
            {
                "seq": n, "created": 1764450000.25 + n, "level": 20 + 10 * (n % 3),
                "logger": "shop.orders", "text": f"order {n} was sent",
            }
            for n in range(12)
        ]
    },
    "output": {"text": "starting\nready\n", "written_bytes": 15},
    "sockets": {
        "sockets": [
            {
                "fd": 7, "kind": "tcp", "state": "ESTABLISHED", "local": "127.0.0.1:50112",
                "peer": "127.0.0.1:5432", "send_queue_bytes": 0, "receive_queue_bytes": 0,
                "silent_ms": 300123, "own_peer": None,
                "peer_process": {"pid": 812, "name": "postgres", "command_line": ["postgres:"]},
            },
            {"fd": 8, "kind": "unix-stream", "state": "CONNECTED", "own_peer": 9},
        ]
    },
    "fds": {
        "count": 9, "limit": 1024,
        "fds": [{"fd": n, "target": f"socket:[{900 + n}]"} for n in range(7)]
        + [{"fd": 7, "target": "/srv/shop/a.db"}, {"fd": 8, "target": "/dev/null"}],
    },
    "children": {
        "children": [
            {
                "pid": 4800, "depth": 1, "state": "S", "wchan": "pipe_write", "name": "convert",
                "command_line": ["convert", "a.png"],
            },
            {"pid": 4801, "depth": 2, "state": "Z", "wchan": "", "name": "sh", "command_line": []},
        ],
        "left_out": 3,
    },
    "locks": {
        "locks": [
            {"id": "1", "waiting": True, "kind": "FLOCK", "pid": 4711, "file": "08:01:77"},
            {
                "id": "1", "waiting": False, "kind": "FLOCK", "pid": 99, "file": "08:01:77",
                "command_line": ["python", "x.py"],
            },
        ]
    },
    "terminated": {
        "postgresql": [
            {"server": "s", "pid": 812, "query": "UPDATE account", "ended": True, "reason": ""}
        ]
    },
}  # fmt: skip


def sections() -> list[Section]:
    found = [Section(name, Status.OK, "", 1.5, payload) for name, payload in PAYLOADS.items()]
    return [*found, Section("native", Status.TIMEOUT, "no answer after 900 ms (time box)", 900.0)]
