"""Attempts that wait for the same have one signature, whatever else differs between them."""

from __future__ import annotations

import json

import pytest

from autopsy.signature import wait_signature


def told(code: str, *evidence: str) -> str:
    signature = wait_signature(as_json(code, *evidence))
    assert signature is not None
    return signature.told()


def as_json(code: str, *evidence: str) -> str:
    best = {"code": code, "confidence": 0.9, "evidence": list(evidence)}
    return json.dumps([best, {"code": "other", "confidence": 0.1, "evidence": ["x"]}])


@pytest.mark.parametrize(
    ("code", "evidence", "expected"),
    [
        (
            "deadlock.in_process",
            (
                (
                    "thread_locks: thread 12 (T-1) waits for the lock `Bank._lock`, which X "
                    "holds since /srv/bank.py:7"
                ),
                "stacks: thread 12 (T-1): pay (/srv/bank.py:41) < run (/srv/app.py:9)",
            ),
            "deadlock.in_process: waits for the lock Bank._lock in pay (/srv/bank.py:41)",
        ),
        (
            "blocked.db_lock",
            (
                (
                    "databases: session 812 (app) is active, Lock tuple for 3.2 s: UPDATE t "
                    "SET a = 37 WHERE id = 'x''y'"
                ),
                (
                    "databases: 812 is blocked by pid 9, application psql, idle in transaction, in "
                    "its transaction for 88.0 s, last statement: SELECT 1"
                ),
                "stacks: save (/srv/store.py:3), there in wait (/lib/psycopg/waiting.py:4)",
            ),
            (
                "blocked.db_lock: waits for the statement UPDATE t SET a = ? WHERE id = ? in save "
                "(/srv/store.py:3)"
            ),
        ),
        (
            "blocked.external",
            (
                "process: thread 1 (python) state S in recvfrom (wchan 0)",
                (
                    "sockets: descriptor 7 is tcp ESTABLISHED, peer 10.0.0.1:443, 0 bytes left "
                    "by it, silent for 9.1 s"
                ),
                "stacks: fetch (/srv/http.py:3)",
            ),
            "blocked.external: waits for the peer 10.0.0.1:443 in fetch (/srv/http.py:3)",
        ),
        (
            "blocked.distributed_lock",
            ("databases: the key lock:stock is held by w-3, which never ends by itself",),
            "blocked.distributed_lock: waits for the key lock:stock",
        ),
        (
            "blocked.file_lock",
            ("databases: /srv/a.db is locked by process 9 (python)", "stacks: go (/a.py:3)"),
            "blocked.file_lock: waits for the file /srv/a.db in go (/a.py:3)",
        ),
        (
            "busy.python",
            ("cpu: 99 % of 1 core for 12.3 s",),
            "busy.python: cpu: ? % of ? core for ? s",
        ),
        (
            "blocked.external",
            ("sockets: descriptor 7 is tcp ESTABLISHED, peer [::1]:46111, silent for 2.7 s",),
            "blocked.external: waits for the peer [::1]:?",
        ),
        ("none.idle", (), "none.idle"),
    ],
)
def test_a_wait_is_told_by_its_resource_and_its_place(
    code: str, evidence: tuple[str, ...], expected: str
) -> None:
    assert told(code, *evidence) == expected


def test_threads_processes_and_times_make_no_difference() -> None:
    def one(thread: int, session: int, seconds: float) -> str:
        return as_json(
            "blocked.db_lock",
            f"databases: session {session} (app) is active, Lock tuple for {seconds} s: SELECT "
            f"{session}",
            f"stacks: thread {thread} (T-{thread}): save (/srv/store.py:3)",
        )

    first, second = wait_signature(one(1, 2, 3.0)), wait_signature(one(44, 55, 66.6))
    assert first == second
    assert first is not None
    assert second is not None
    assert first.key == second.key
    elsewhere = wait_signature(one(1, 2, 3.0).replace("store.py:3", "store.py:4"))
    assert elsewhere is not None
    assert elsewhere.key != first.key


@pytest.mark.parametrize(
    "odd",
    [None, "", "{", "[]", "{}", "7", "[1]", "[null]", '[{"code": 3}]', '[{"code": ""}]',
     "[" * 100_000],
)  # fmt: skip
def test_what_is_no_diagnosis_has_none(odd: str | None) -> None:
    assert wait_signature(odd) is None


@pytest.mark.parametrize("evidence", [7, None, "x", [7, None], {"a": 1}])
def test_evidence_of_another_shape_is_left_out(evidence: object) -> None:
    signature = wait_signature(json.dumps([{"code": "busy.python", "evidence": evidence}]))
    assert signature is not None
    assert signature.told() == "busy.python"


def test_long_evidence_is_cut_and_takes_no_time() -> None:
    long = "thread_locks: MainThread waits for " + "x" * 200_000
    signature = wait_signature(as_json("c" * 1000, long, "stacks: " + "f (" * 50_000))
    assert signature is not None
    assert max(map(len, (signature.code, signature.what, signature.where))) <= 250
