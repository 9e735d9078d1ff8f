"""What the kernel lets us see of a patient, and if not all, why and what would allow it.

Secret: the kernel's rules of ptrace access. Two questions have two answers: reading what a process
has open, and reading its memory and system calls (which Yama restricts beside the rest).
"""

from __future__ import annotations

import os
import pwd

from autopsy.collect import procfs
from autopsy.collect.patient import Patient
from autopsy.section import Payload

_SYS_PTRACE = 1 << 19
_LOWER_SCOPE = "restart the host with a lower ptrace_scope"
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_UNSEEN = {
    "all": "open files, sockets, environment, memory, system calls and stacks",
    "memory": "memory, system calls and stacks",
}


def collect(patient: Patient) -> Payload:
    """Tell what may be seen.

    Shapes: hidden ("", "memory" or "all"), user, own_user, why, allow (what would help, the best
    first), containers (how many namespaces further in it has a pid of its own).
    """
    status = procfs.status(f"/proc/{patient.pid}/status") or {}
    own = procfs.status("/proc/self/status") or {}
    hidden = what_is_hidden(patient.pid)
    why, allow = _reason(patient.pid, hidden, status, own) if hidden else ("", [])
    return {
        "hidden": hidden,
        "unseen": _UNSEEN.get(hidden, ""),
        "user": _named(_user(status)),
        "own_user": _named(os.geteuid()),
        "why": why,
        "allow": allow,
        "containers": max(0, len(status.get("NSpid", "").split()) - 1),
    }


def what_is_hidden(pid: int) -> str:
    """Return "all", "memory" or "" for what we may not see of a living process."""
    if procfs.is_hidden(pid):
        return "all"
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return "memory"
    except OSError:
        return ""
    return ""


def _reason(
    pid: int, hidden: str, status: dict[str, str], own: dict[str, str]
) -> tuple[str, list[str]]:
    """Say which of the kernel's rules forbids it; they are asked in the kernel's order."""
    may_all = bool(int(own.get("CapEff", "0"), 16) & _SYS_PTRACE)
    scope = (procfs.read_text(_YAMA) or "").strip()
    if may_all:
        return _despite_capability(scope)
    as_root = _as_root(pid)
    if (user := _user(status)) != os.geteuid():
        as_user = [f"run it as {_named(user)}"] if user else []
        return f"it runs as {_named(user)}, this as {_named(os.geteuid())}", [*as_user, *as_root]
    if int(status.get("CapPrm", "0"), 16) & ~int(own.get("CapPrm", "0"), 16):
        return "it has capabilities that this has not", as_root
    if _is_undumpable(pid, status):
        why = "it does not let itself be read (PR_SET_DUMPABLE, as after a change of user)"
        return why, as_root
    if scope in ("1", "2", "3") and hidden == "memory":  # it does not ask about the rest
        return f"kernel.yama.ptrace_scope is {scope}", _yama_remedies(scope, as_root)
    why = "it does not let itself be read (PR_SET_DUMPABLE), or a security module or seccomp does"
    return why, as_root


def _despite_capability(scope: str) -> tuple[str, list[str]]:
    if scope == "3":
        return "kernel.yama.ptrace_scope is 3", [_LOWER_SCOPE]
    why = "a security module, seccomp, or a user namespace further out forbids it"
    return why, ["run it on the host, outside of the container"]


def _as_root(pid: int) -> list[str]:
    if os.geteuid() == 0:
        return ["give it CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)"]
    sudo = f"sudo $(command -v autopsy) {pid}"  # sudo does not look where a venv keeps commands
    return [f"run it as root ({sudo}); in a container also --cap-add SYS_PTRACE"]


def _yama_remedies(scope: str, as_root: list[str]) -> list[str]:
    if scope == "3":
        return [_LOWER_SCOPE]
    if scope == "2":
        return as_root
    return [*as_root, "allow it for all: sysctl kernel.yama.ptrace_scope=0"]


def _is_undumpable(pid: int, status: dict[str, str]) -> bool:
    """The kernel gives the files of such a process to root; of root's own nobody can tell."""
    try:
        owner = os.stat(f"/proc/{pid}/stat").st_uid  # noqa: PTH116 - of /proc, nothing of its own
    except OSError:
        return False
    return owner == 0 and _user(status) != 0


def _user(status: dict[str, str]) -> int:
    words = status.get("Uid", "").split()
    return int(words[1]) if len(words) > 1 else 0


def _named(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
