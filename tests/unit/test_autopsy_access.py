"""Why the kernel hides a process: each of its rules, told by what the status files say."""

from __future__ import annotations

import os

import pytest

from autopsy.collect import access, procfs

OURS, OTHERS = 70_000, 70_001
PTRACE, NONE = "0000000000080000", "0000000000000000"
ASK_ROOT = "run it as root (sudo $(command -v autopsy) 7); in a container also --cap-add SYS_PTRACE"


@pytest.fixture(autouse=True)
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: OURS)


def status(uid: int = OURS, permitted: str = NONE, effective: str = NONE) -> dict[str, str]:
    return {"Uid": f"{uid}\t{uid}\t{uid}\t{uid}", "CapPrm": permitted, "CapEff": effective}


def reason(
    monkeypatch: pytest.MonkeyPatch,
    of: dict[str, str],
    own: dict[str, str],
    *,
    scope: str | None = None,
    undumpable: bool = False,
    hidden: str = "memory",
) -> tuple[str, list[str]]:
    monkeypatch.setattr(procfs, "read_text", lambda path, limit=0: scope)
    monkeypatch.setattr(access, "_is_undumpable", lambda pid, found: undumpable)
    return access._reason(7, hidden, of, own)


def test_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    why, allow = reason(monkeypatch, status(OTHERS), status())
    assert why == "it runs as user 70001, this as user 70000"
    assert allow == ["run it as user 70001", ASK_ROOT]
    why, allow = reason(monkeypatch, status(0), status())
    assert (why, allow) == ("it runs as user root, this as user 70000", [ASK_ROOT])


def test_more_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    told = reason(monkeypatch, status(permitted="0000000000000400"), status())
    assert told == ("it has capabilities that this has not", [ASK_ROOT])


def test_one_that_does_not_let_itself_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    why, allow = reason(monkeypatch, status(), status(), undumpable=True)
    assert why.startswith("it does not let itself be read (PR_SET_DUMPABLE, ")
    assert allow == [ASK_ROOT]


@pytest.mark.parametrize(
    ("scope", "allow"),
    [
        ("1", [ASK_ROOT, "allow it for all: sysctl kernel.yama.ptrace_scope=0"]),
        ("2", [ASK_ROOT]),
        ("3", ["restart the host with a lower ptrace_scope"]),
    ],
)
def test_yama(monkeypatch: pytest.MonkeyPatch, scope: str, allow: list[str]) -> None:
    told = reason(monkeypatch, status(), status(), scope=scope)
    assert told == (f"kernel.yama.ptrace_scope is {scope}", allow)


def test_yama_does_not_hide_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    why, _ = reason(monkeypatch, status(), status(), scope="1", hidden="all")
    assert why.startswith("it does not let itself be read")


def test_nothing_known_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    why, allow = reason(monkeypatch, status(), status(), scope="0")
    assert "or a security module or seccomp does" in why
    assert allow == [ASK_ROOT]


def test_with_the_capability_only_what_is_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    why, allow = reason(monkeypatch, status(OTHERS), status(effective=PTRACE), scope="3")
    assert (why, allow) == (
        "kernel.yama.ptrace_scope is 3",
        ["restart the host with a lower ptrace_scope"],
    )
    why, allow = reason(monkeypatch, status(OTHERS), status(effective=PTRACE), scope="1")
    assert why.startswith("a security module, seccomp, or a user namespace ")
    assert allow == ["run it on the host, outside of the container"]
