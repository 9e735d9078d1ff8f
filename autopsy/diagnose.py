"""Why is it stuck: rules from what was collected to named causes, best first.

Secret: the rules. Pure. Invariants: every cause carries evidence that names the section it was
read in; a rule that cannot tell two causes apart says so with its confidence; when nothing fits
the answer is `unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from autopsy.case import Case, Frame, Thread
from autopsy.cause import Diagnosis
from autopsy.section import Payload

UNKNOWN = "unknown"
_SOCKET_CALLS = frozenset(
    {"recvfrom", "recvmsg", "sendto", "sendmsg", "connect", "read", "write", "writev"}
)
_POLL_CALLS = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"})
_SLEEP_CALLS = frozenset({"clock_nanosleep", "nanosleep"})
# Waits for a file-system server: uninterruptible as soon as anybody touches them.
_FILE_SERVER_WAITS = ("request_wait_answer", "rpc_wait", "nfs_wait", "fuse_")
# What a side thread waits for says less than what the main thread waits for.
_SIDE_THREAD = 0.85
_LOCK_WORDS = ("with ", "acquire(", "async with ")
_SOCKET_WORDS = (".recv(", ".recv_into(", ".connect(", ".sendall(", ".accept(")
_QUEUE_WORDS = (".get(", ".wait(", ".join(", ".result(")
_CLOSE_WAIT_MANY = 50
_THREADS_MANY = 500
_ZOMBIES_MANY = 20
_TOTAL_HOT, _SHARE_HOT = 0.7, 0.2
# In the movement window: a thread that waits for the GIL wakes every 5 ms.
_GIL_WAITER_SWITCHES = 6
_RESTLESS_SWITCHES = 25
_C_LIBRARIES = ("libc.", "libc-", "ld-", "[vdso]", "libpthread", "libm.")


Rule = Callable[[Case], Iterator[Diagnosis]]


def diagnose(sections: Mapping[str, Payload]) -> list[Diagnosis]:
    """Return the possible causes, best first; never empty.

    `sections` are payloads by section name; a missing or empty section is only less evidence.
    """
    case = Case(sections)
    whole = list(_process_as_a_whole(case))
    if whole:
        return whole
    found: dict[str, Diagnosis] = {}
    for rule in _RULES:
        for one in rule(case):
            best = found.get(one.code)
            if best is None or one.confidence > best.confidence:
                found[one.code] = one
    if not found:
        return [Diagnosis(UNKNOWN, 0.0, _what_was_seen(case))]
    return sorted(found.values(), key=lambda one: -one.confidence)


def _hit(code: str, confidence: float, *evidence: str) -> Diagnosis:
    return Diagnosis(code, round(confidence, 2), evidence)


def _what_was_seen(case: Case) -> tuple[str, ...]:
    if not case.threads:
        return ("process: no living thread was seen",)
    hidden = ("process: no permission to see its system calls: needs SYS_PTRACE",)
    return (hidden if case.process.get("hidden") else ()) + tuple(
        f"process: thread {one.tid} ({one.name}) state {one.state} in {one.syscall or 'no call'} "
        f"(wchan {one.wchan}), {one.cpu_ratio:.0%} CPU, {one.switches} switches: {one.where}"
        for one in case.threads[:5]
    )


def _process_as_a_whole(case: Case) -> Iterator[Diagnosis]:
    """States that say it all: nothing else about the process can be trusted beside them."""
    looks = case.listed("process", "threads")
    if not looks:
        return
    if not case.threads and all(one["state"] in "ZX" for one in looks):
        yield _hit("zombie.process", 1.0, "process: every thread is in state Z: dead, not reaped")
    elif case.movement and not case.movement["alive"]:
        how = "is gone" if case.movement["reaped"] else "has exited and is not reaped yet"
        yield _hit("none.exited", 1.0, f"movement: the process {how}; it was alive before")
    elif case.process.get("frozen"):
        yield _hit("stopped.frozen", 1.0, "process: its cgroup is frozen")
    elif looks[0]["state"] in "Tt":
        tracer = (case.process.get("status") or {}).get("TracerPid", "0")
        if tracer != "0":
            yield _hit("stopped.traced", 1.0, f"process: state t, TracerPid {tracer}")
        else:
            yield _hit("stopped.signal", 1.0, "process: state T (stopped), TracerPid 0")


def _uninterruptible(case: Case) -> Iterator[Diagnosis]:
    for one in case.threads:
        if one.state == one.state_after == "D" and one.wchan == one.wchan_after:
            yield _hit(
                "uninterruptible",
                0.95,
                f"process, movement: thread {one.tid} in state D in {one.wchan} in both looks",
                f"stacks: {one.where}",
            )
        elif one.wchan.startswith(_FILE_SERVER_WAITS):
            yield _hit(
                "uninterruptible",
                0.9,
                f"process: thread {one.tid} waits for a file-system server in {one.wchan}",
            )


def _leaks(case: Case) -> Iterator[Diagnosis]:
    count = (case.sections.get("fds") or {}).get("count") or 0
    limit = (case.sections.get("fds") or {}).get("limit") or 0
    if limit and count > 0.9 * limit:
        yield _hit("leak.fds", 0.9, f"fds: {count} open of {limit} allowed")
    waiting = [one for one in case.sockets.values() if one["state"] == "CLOSE_WAIT"]
    if len(waiting) >= _CLOSE_WAIT_MANY:
        peers = ", ".join(sorted({one["peer"] for one in waiting})[:3])
        yield _hit("leak.sockets", 0.9, f"sockets: {len(waiting)} in CLOSE_WAIT to {peers}")
    if len(case.threads) > _THREADS_MANY:
        yield _hit("leak.threads", 0.9, f"process: {len(case.threads)} threads")
    zombies = [one for one in case.children if one["state"] == "Z" and one["depth"] == 1]
    if len(zombies) >= _ZOMBIES_MANY:
        yield _hit("leak.zombies", 0.9, f"children: {len(zombies)} dead children not waited for")


def _busy(case: Case) -> Iterator[Diagnosis]:
    total = sum(one.cpu_ratio for one in case.threads)
    for one in case.threads:
        # Threads that take turns at the GIL are each asleep half of the time.
        taking_turns = total > _TOTAL_HOT and one.cpu_ratio > _SHARE_HOT
        if (one.running or taking_turns) and one not in _restless(case):
            yield from _one_busy(case, one)


def _one_busy(case: Case, one: Thread) -> Iterator[Diagnosis]:
    seen = (
        f"process, movement: thread {one.tid} state {one.state}, then {one.state_after}, "
        f"{one.cpu_ratio:.0%} CPU, {one.switches} switches"
    )
    where = f"stacks: {one.where}"
    leaf_fixed = bool(one.frames) and one.frames[:1] == one.frames_after[:1]
    native = _native_leaf(case, one)
    if not one.frames or not one.owns_gil:
        yield _hit("busy.python", 0.3, seen, "stacks: none, so Python and native look alike")
    elif not any(one.owns_gil) and leaf_fixed and one.switches < _GIL_WAITER_SWITCHES:
        yield _hit("busy.native", 0.85, seen, f"{where}, without the GIL in both samples")
    elif native and leaf_fixed and all(one.owns_gil):
        yield _hit("busy.native_gil", 0.5, seen, f"stacks: {native}, the GIL held throughout")
        yield _hit("busy.python", 0.45, seen, where, "stacks: or a one-line loop of short C calls")
    elif leaf_fixed and all(one.owns_gil):
        note = "stacks: a one-line loop and one long operation of the interpreter look alike"
        yield _hit("busy.python", 0.6, seen, where, note)
        yield _hit("busy.native_gil", 0.4, seen, where, note)
    else:
        yield _hit("busy.python", 0.8, seen, f"{where}, elsewhere or without the GIL once")


def _livelock(case: Case) -> Iterator[Diagnosis]:
    restless = _restless(case)[:4]
    if restless:
        lines = (f"movement: thread {one.tid}, {one.switches} wake-ups" for one in restless)
        where = (f"stacks: {one.where}" for one in restless)
        yield _hit("busy.livelock", 0.6, *lines, *where)


def _restless(case: Case) -> list[Thread]:
    """Threads that keep waking each other at locks; one alone is no such thing."""
    found = [
        one
        for one in case.threads
        if one.switches > _RESTLESS_SWITCHES
        and (_at_a_lock(one.frames) or _at_a_lock(one.frames_after))
    ]
    return found if len(found) > 1 else []


def _at_a_lock(frames: tuple[Frame, ...]) -> bool:
    near = frames[:4]
    return any("acquire(" in one.source or one.function in ("acquire", "_enter") for one in near)


def _gil_held_asleep(case: Case) -> Iterator[Diagnosis]:
    for one in case.threads:
        if len(one.owns_gil) > 1 and all(one.owns_gil) and one.still and one.state != "R":
            yield _hit(
                "blocked.native_gil",
                0.9,
                f"process, movement: thread {one.tid} asleep in {one.syscall} (wchan {one.wchan})",
                f"stacks: it holds the GIL in both samples, in {one.where}",
            )


def _native_leaf(case: Case, thread: Thread) -> str:
    """The C function the thread is in, in every native sample; empty when it is in none."""
    found = [_c_function(case.stack_in(sample, thread.tid)) for sample in case.samples[2:]]
    if not found or "" in found:
        return ""
    return f"native code {found[0]} above {thread.frames[0]}"


def _c_function(stack: tuple[Frame, ...]) -> str:
    """The innermost one beyond the C library, which a loop of Python calls calls too."""
    for frame in stack:
        if not frame.native:
            return ""
        if not frame.file.rpartition("/")[2].startswith(_C_LIBRARIES):
            return f"{frame.function} ({frame.file})"
    return ""


def _locks(case: Case) -> Iterator[Diagnosis]:
    still = [one for one in case.threads if one.parked and one.still]
    for one in still:
        if case.is_shared(one.args[0]):
            yield _hit(
                "deadlock.cross_process",
                0.8,
                f"process, memory: thread {one.tid} waits in memory shared with other processes",
                f"stacks: {one.where}",
            )
    private = [one for one in still if not case.is_shared(one.args[0])]
    if not private or not case.threads:
        return
    kinds = {one.tid: _kind_of_wait(one) for one in private}
    lines = tuple(
        f"process, stacks: thread {one.tid} ({one.name}) waits without a timeout "
        f"for a {kinds[one.tid]} in {one.where}"
        for one in private[:6]
    )
    locked = sum(kind == "lock" for kind in kinds.values())
    if len(private) == len(case.threads):
        yield from _nobody_can_wake(private, kinds, lines)
    elif locked >= 2:
        note = f"process: {len(case.threads) - len(private)} other threads live; one may hold them"
        yield _hit("deadlock.in_process", 0.5, *lines, note)
    elif locked == 1:
        yield _hit("deadlock.in_process", 0.3, *lines, "process: another thread may hold the lock")


def _nobody_can_wake(
    parked: list[Thread], kinds: dict[int, str], lines: tuple[str, ...]
) -> Iterator[Diagnosis]:
    note = f"process, movement: all {len(parked)} threads wait without a timeout and none moved"
    if any(one.within("_shutdown", file="threading", depth=3) for one in parked if one.main):
        deadlocked = sum(kind == "lock" for kind in kinds.values()) >= 2
        if deadlocked:  # the cause; that the main thread cannot leave is its effect
            yield _hit("deadlock.in_process", 0.9, note, *lines)
        yield _hit("exit.hung_shutdown", 0.5 if deadlocked else 0.93, note, *lines)
    elif any(_waits_for_its_own_pool(one) for one in parked):
        pool = "stacks: a thread of a pool waits for that pool"
        yield _hit("deadlock.in_process", 0.9, note, pool, *lines)
    elif "lock" in kinds.values():
        yield _hit("deadlock.in_process", 0.9, note, *lines)
    elif not {"lock or queue", "futex"}.isdisjoint(kinds.values()):
        yield _hit("deadlock.in_process", 0.5, note, *lines)
        yield _hit("wait.no_waker", 0.4, note, *lines)
    else:
        yield _hit("wait.no_waker", 0.8, note, *lines)


def _kind_of_wait(thread: Thread) -> str:
    if not thread.frames:
        return "futex"
    leaf = thread.frames[0]
    if "threading" in leaf.file and leaf.function in ("_wait_for_tstate_lock", "_shutdown", "join"):
        return "thread to end"
    if "threading" in leaf.file and leaf.function == "wait":
        return "condition"
    if leaf.function == "_worker" and leaf.file.endswith("concurrent/futures/thread.py"):
        return "work item"
    if any(word in leaf.source for word in _QUEUE_WORDS) and "acquire(" not in leaf.source:
        return "queue item"
    if leaf.function in ("acquire", "__enter__") or any(
        word in leaf.source for word in _LOCK_WORDS
    ):
        return "lock"
    return "lock or queue"


def _waits_for_its_own_pool(thread: Thread) -> bool:
    functions = [frame.function for frame in thread.frames if "concurrent/futures" in frame.file]
    return "result" in functions and "_worker" in functions


def _waits(case: Case) -> Iterator[Diagnosis]:
    main_waits = any(one.main and not one.parked for one in case.threads)
    for one in case.threads:
        if one.running or one.syscall is None:
            continue
        for found in _one_wait(case, one):
            factor = 1.0 if one.main or not main_waits else _SIDE_THREAD
            yield _hit(found.code, found.confidence * factor, *found.evidence)


def _stack_alone(case: Case) -> Iterator[Diagnosis]:
    """When the kernel does not show system calls: what the innermost call is named, guessed."""
    for one in case.threads:
        if one.syscall is not None or one.running or not one.frames_after or not one.still:
            continue
        kind, source = _kind_of_wait(one), one.frames[0].source
        note = "process: the system call is not known, nor whether the wait has a timeout"
        if "sleep(" in source:
            yield _hit("blocked.sleep", 0.4, f"stacks: {one.where}", note)
        elif any(word in source for word in _SOCKET_WORDS):
            yield _hit("blocked.external", 0.4, f"stacks: {one.where}", note)
        elif kind == "lock":
            yield _hit("deadlock.in_process", 0.3, f"stacks: {one.where}", note)
        elif kind in ("condition", "queue item"):
            yield _hit("wait.no_waker", 0.3, f"stacks: {one.where}", note)


def _one_wait(case: Case, one: Thread) -> Iterator[Diagnosis]:
    seen = f"process: thread {one.tid} ({one.name}) state {one.state} in {one.syscall}"
    seen += f" (wchan {one.wchan})"
    where = f"stacks: {one.where}"
    fd = one.args[0] if one.args else -1
    target = case.descriptors.get(fd, "")
    if one.syscall in ("wait4", "waitid"):
        yield _hit("blocked.child_process", 0.9, seen, _children(case), where)
    elif one.syscall in ("flock", "fcntl"):
        yield _hit("blocked.file_lock", 0.9, seen, _holders(case), where)
    elif one.syscall == "openat":
        yield _hit(
            "blocked.ipc",
            0.85 if "fifo" in one.wchan or "partner" in one.wchan else 0.4,
            seen,
            where,
        )
    elif one.syscall in ("accept", "accept4"):
        yield _hit("none.idle", 0.6, seen, "sockets: waits for a connection", where)
    elif one.syscall in _SOCKET_CALLS and (fd in case.sockets or target.startswith("socket:")):
        code = "asyncio.loop_blocked" if one.in_event_loop else "blocked.external"
        yield _hit(code, 0.9 if one.still else 0.5, seen, _socket(case, fd), where)
    elif one.syscall in ("read", "write", "writev") and target.startswith("pipe:"):
        yield _pipe(case, one, fd, target, seen)
    elif one.syscall in _POLL_CALLS:
        yield from _poll(case, one, seen)
    elif one.syscall in _SLEEP_CALLS or one.syscall == "pause":
        yield _sleep(one, seen)
    elif one.syscall == "futex" and not one.parked:
        yield _hit("none.idle", 0.3, seen, "process: the wait has a timeout", where)


def _pipe(case: Case, one: Thread, fd: int, target: str, seen: str) -> Diagnosis:
    where = f"stacks: {one.where}"
    child = case.pipe_child(target)
    if child is not None:
        held = f"children: {target} is also open in child {child['pid']} ({child['name']})"
        held += f", state {child['state']} in {child['wchan']}"
        return _hit("blocked.child_process", 0.85, seen, held, where)
    if one.syscall != "read" and fd in (1, 2):
        return _hit("blocked.supervisor_pipe", 0.85, seen, f"fds: output {target}", where)
    return _hit("blocked.ipc", 0.75, seen, f"fds: {fd} is {target}", where)


def _poll(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    where = f"stacks: {one.where}"
    targets = {fd: case.descriptors.get(fd, "") for fd in one.waits_on}
    sockets = [case.sockets[fd] for fd in targets if fd in case.sockets]
    connected = [entry for entry in sockets if entry["state"] != "LISTEN"]
    pipes = [case.pipe_child(target) for target in targets.values() if target.startswith("pipe:")]
    if not one.still:
        if one.switches > 4:
            yield _hit("none.progressing", 0.4, seen, f"movement: {one.switches} wake-ups", where)
    elif one.in_event_loop:
        yield _hit("asyncio.pending_forever", 0.5, seen, "stacks: the event loop is idle", where)
    elif connected:
        which = "; ".join(_socket(case, entry["fd"]) for entry in connected[:3])
        yield _hit("blocked.external", 0.75, seen, which, where)
    elif sockets and not connected:
        yield _hit("none.idle", 0.6, seen, "sockets: waits for a connection", where)
    elif any(pipes):
        yield _hit("blocked.child_process", 0.8, seen, _children(case), where)


def _sleep(one: Thread, seen: str) -> Diagnosis:
    where = f"stacks: {one.where}"
    if one.stack_moved:
        note = f"movement, stacks: {one.switches} wake-ups, at another place in the second sample"
        return _hit("none.progressing", 0.45, seen, note, where)
    if one.switches > 0:
        return _hit("blocked.polling", 0.35, seen, f"movement: {one.switches} wake-ups", where)
    if one.in_event_loop:
        return _hit("asyncio.loop_blocked", 0.85, seen, "stacks: below the event loop", where)
    return _hit(
        "blocked.sleep", 0.8 if one.still else 0.4, seen, "movement: not one wake-up", where
    )


def _socket(case: Case, fd: int) -> str:
    entry = case.sockets.get(fd)
    if entry is None:
        return f"fds: {fd} is {case.descriptors.get(fd, 'unknown')}"
    text = f"sockets: descriptor {fd} is {entry['kind']} {entry['state']}"
    if entry.get("peer"):
        text += f", peer {entry['peer']}, {entry.get('send_queue_bytes', 0)} bytes not taken by it"
    return text


def _children(case: Case) -> str:
    listed = ", ".join(
        f"{one['pid']} ({one['name']}) state {one['state']} in {one['wchan'] or '?'}"
        for one in case.children[:4]
    )
    return f"children: {listed or 'none was seen'}"


def _holders(case: Case) -> str:
    locks = case.listed("locks", "locks")
    wanted = {one["id"] for one in locks if one["waiting"] and "command_line" not in one}
    holders = [one for one in locks if one["id"] in wanted and not one["waiting"]]
    named = ", ".join(
        f"pid {one['pid']} ({' '.join(one.get('command_line', []))[:80]})" for one in holders[:3]
    )
    return f"locks: held by {named or 'nobody the kernel names'}"


_RULES: tuple[Rule, ...] = (
    _uninterruptible,
    _leaks,
    _busy,
    _livelock,
    _gil_held_asleep,
    _locks,
    _waits,
    _stack_alone,
)
