"""States of the whole process, waits no signal reaches, and a host without time for it.

Secret: what the kernel alone proves. Holds for any program, Python or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from autopsy.case import Case
from autopsy.cause import Code, Diagnosis, hit

# Shares of the time in which a thread stood in the queue for a CPU.
_STARVED, _STARVING = 0.6, 0.85
_THROTTLED = 0.5
# Waits for a file-system server: uninterruptible as soon as anybody touches them.
_FILE_SERVER_WAITS = ("request_wait_answer", "rpc_wait", "nfs_wait", "fuse_")


def as_a_whole(case: Case) -> Iterator[Diagnosis]:
    """States that say it all: nothing else about the process can be trusted beside them."""
    looks = case.listed("process", "threads")
    if not looks:
        return
    if not case.threads and all(one["state"] in "ZX" for one in looks):
        seen = "process: every thread is in state Z: dead, not reaped"
        yield hit(Code.ZOMBIE_PROCESS, 1.0, seen, *_ending(case))
    elif case.movement and not case.movement["alive"]:
        how = "is gone" if case.movement["reaped"] else "has exited and is not reaped yet"
        seen = f"movement: the process {how}; it was alive before"
        yield hit(Code.NONE_EXITED, 1.0, seen, *_ending(case))
    elif case.process.get("frozen"):
        yield hit(Code.STOPPED_FROZEN, 1.0, "process: its cgroup is frozen")
    elif looks[0]["state"] in "Tt":
        tracer = (case.process.get("status") or {}).get("TracerPid", "0")
        if tracer != "0":
            yield hit(
                Code.STOPPED_TRACED, 1.0, f"process: state {looks[0]['state']}, TracerPid {tracer}"
            )
        else:
            yield hit(Code.STOPPED_SIGNAL, 1.0, "process: state T (stopped), TracerPid 0")


def _ending(case: Case) -> Iterator[str]:
    """Say how it ended, where nobody has asked the kernel for that yet."""
    if (number := case.movement.get("exit_signal")) is not None:
        yield f"movement: it was ended by signal {number}"
    elif (code := case.movement.get("exit_code")) is not None:
        yield f"movement: it ended with exit code {code}"


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


def starved(case: Case) -> Iterator[Diagnosis]:
    """Name threads that are ready to run and are not given the CPU."""
    throttled = case.throttled
    if throttled > _THROTTLED and any(one.running for one in case.threads):
        line = f"host: its control group was out of CPU time in {throttled:.0%} of the periods"
        yield hit(Code.STARVED_HOST, 0.7, line)
    for one in case.threads:
        waited = min(one.cpu.waited or 0.0, 1.0)
        if waited > _STARVED and one.cpu.got < 1 - _STARVED:
            # Its own other threads may be what it waits for.
            own = sum(other.cpu.got for other in case.threads if other is not one)
            yield hit(
                Code.STARVED_HOST,
                0.5 if waited > _STARVING and own < 1 - _STARVING else 0.35,
                f"process, movement: thread {one.tid} was ready to run and waited for a CPU for "
                f"{waited:.0%} of the time",
                f"stacks: {one.where}",
            )
