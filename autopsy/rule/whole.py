"""States of the whole process, waits no signal reaches, and what it has too many of.

Secret: what the kernel alone proves. Holds for any program, Python or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from autopsy.case import Case
from autopsy.cause import Code, Diagnosis, hit

# Waits for a file-system server: uninterruptible as soon as anybody touches them.
_FILE_SERVER_WAITS = ("request_wait_answer", "rpc_wait", "nfs_wait", "fuse_")
_CLOSE_WAIT_MANY = 50
_THREADS_MANY = 500
_ZOMBIES_MANY = 20


def as_a_whole(case: Case) -> Iterator[Diagnosis]:
    """States that say it all: nothing else about the process can be trusted beside them."""
    looks = case.listed("process", "threads")
    if not looks:
        return
    if not case.threads and all(one["state"] in "ZX" for one in looks):
        yield hit(Code.ZOMBIE_PROCESS, 1.0, "process: every thread is in state Z: dead, not reaped")
    elif case.movement and not case.movement["alive"]:
        how = "is gone" if case.movement["reaped"] else "has exited and is not reaped yet"
        yield hit(Code.NONE_EXITED, 1.0, f"movement: the process {how}; it was alive before")
    elif case.process.get("frozen"):
        yield hit(Code.STOPPED_FROZEN, 1.0, "process: its cgroup is frozen")
    elif looks[0]["state"] in "Tt":
        tracer = (case.process.get("status") or {}).get("TracerPid", "0")
        if tracer != "0":
            yield hit(Code.STOPPED_TRACED, 1.0, f"process: state t, TracerPid {tracer}")
        else:
            yield hit(Code.STOPPED_SIGNAL, 1.0, "process: state T (stopped), TracerPid 0")


def uninterruptible(case: Case) -> Iterator[Diagnosis]:
    """Name threads that no signal reaches."""
    for one in case.threads:
        if one.state == one.state_after == "D" and one.wchan == one.wchan_after:
            yield hit(
                Code.UNINTERRUPTIBLE,
                0.95 if one.switches == 0 else 0.5,  # a wait that ended and came again is slow
                f"process, movement: thread {one.tid} in state D in {one.wchan} in both looks",
                f"stacks: {one.where}",
            )
        elif one.wchan.startswith(_FILE_SERVER_WAITS):
            yield hit(
                Code.UNINTERRUPTIBLE,
                0.9,
                f"process: thread {one.tid} waits for a file-system server in {one.wchan}",
                f"stacks: {one.where}",
            )


def leaks(case: Case) -> Iterator[Diagnosis]:
    """Name what was opened or started and never closed."""
    count = (case.sections.get("fds") or {}).get("count") or 0
    limit = (case.sections.get("fds") or {}).get("limit") or 0
    if limit and count > 0.9 * limit:
        yield hit(Code.LEAK_FDS, 0.9, f"fds: {count} open of {limit} allowed")
    waiting = [one for one in case.sockets.values() if one["state"] == "CLOSE_WAIT"]
    if len(waiting) >= _CLOSE_WAIT_MANY:
        peers = ", ".join(sorted({one["peer"] for one in waiting})[:3])
        yield hit(Code.LEAK_SOCKETS, 0.9, f"sockets: {len(waiting)} in CLOSE_WAIT to {peers}")
    if len(case.threads) > _THREADS_MANY:
        yield hit(Code.LEAK_THREADS, 0.9, f"process: {len(case.threads)} threads")
    zombies = [one for one in case.children if one["state"] == "Z" and one["depth"] == 1]
    if len(zombies) >= _ZOMBIES_MANY:
        yield hit(Code.LEAK_ZOMBIES, 0.9, f"children: {len(zombies)} dead children not waited for")
