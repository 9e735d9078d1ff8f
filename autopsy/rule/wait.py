"""Threads that wait for something outside: a peer, a child, a file lock, a pipe, a time.

Secret: which system call on which descriptor means what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autopsy import needs
from autopsy.case import Case, Thread
from autopsy.cause import Code, Diagnosis, hit
from autopsy.rule.rest import ACCEPT_CALLS, LONG_S, POLL_CALLS, SLEEP_CALLS
from autopsy.section import Payload

_SOCKET_CALLS = frozenset(
    {"recvfrom", "recvmsg", "sendto", "sendmsg", "connect", "read", "write", "writev"}
)
_SOCKET_WORDS = (".recv(", ".recv_into(", ".connect(", ".sendall(", ".accept(")
_PIPE_WRITES = ("pipe_write", "anon_pipe_write")
# What a side thread waits for says less than what the main thread waits for.
_SIDE = 0.85
# A loop that only asks for something uses next to no CPU between two sleeps.
_WORKS = 0.06
_TURNS = 4
# What a thread does between two pieces of work says little.
_BETWEEN = 0.4
_RESTING = (Code.NONE_IDLE, Code.NONE_PROGRESSING)
# Nothing shows that the main thread needs this one: a heartbeat or a listener waits as well.
_MAY_BE = 0.55
# Many a main thread sleeps while its threads work: what those wait for comes first.
_RESTS = 0.45


def waits(case: Case) -> Iterator[Diagnosis]:
    """Name what each thread waits for outside the process, as far as the main thread needs it."""
    found = [
        (one, each)
        for one in case.threads
        # One that holds the GIL in its sleep has a rule of its own.
        if not one.running and one.syscall is not None and not (one.owns_gil and all(one.owns_gil))
        for each in _one_wait(case, one)
    ]
    crowds = Counter((each.code, one.where) for one, each in found)
    for one, each in found:
        many = crowds[each.code, one.where]
        crowd = (f"stacks: {many} threads wait there, first {one.name}",) if many > 1 else ()
        limit, relation = _standing(case, one, each)
        if one.gets_on and each.code not in _RESTING:
            limit = min(limit, _BETWEEN)
        sure = limit * each.confidence if limit == _SIDE else min(limit, each.confidence)
        yield hit(Code(each.code), sure, *each.evidence, *crowd, *relation)


def works(case: Case) -> Iterator[Diagnosis]:
    """Name threads that are seen at work in several places, now running, now waiting."""
    for one in case.threads:
        in_turns = one.cpu_ratio > _WORKS and one.switches > _TURNS
        if (one.gets_on or in_turns) and not one.running:
            sure = 0.6 if one.gets_on else 0.45
            seen = f"movement: {one.cpu_ratio:.0%} CPU, {one.switches} wake-ups"
            motion = f"motion: {one.motion}"
            yield hit(Code.NONE_PROGRESSING, sure, seen, motion, f"stacks: {one.where}")


def stack_alone(case: Case) -> Iterator[Diagnosis]:
    """When the kernel does not show system calls: what the innermost call is named, guessed."""
    for one in case.threads:
        if one.syscall is not None or one.running or not one.frames_after or not one.still:
            continue
        kind, source = needs.kind_of_wait(case, one), one.frames[0].source
        note = "process: the system call is not known, nor whether the wait has a timeout"
        if "sleep(" in source:
            yield hit(Code.BLOCKED_SLEEP, 0.4, f"stacks: {one.where}", note)
        elif any(word in source for word in _SOCKET_WORDS):
            yield hit(Code.BLOCKED_EXTERNAL, 0.4, f"stacks: {one.where}", note)
        elif kind == needs.LOCK:
            yield hit(Code.DEADLOCK_IN_PROCESS, 0.3, f"stacks: {one.where}", note)
        elif kind in (needs.CONDITION, needs.QUEUE_ITEM):
            yield hit(Code.WAIT_NO_WAKER, 0.3, f"stacks: {one.where}", note)


def _standing(case: Case, one: Thread, each: Diagnosis) -> tuple[float, tuple[str, ...]]:
    """How sure the wait of a thread can be the cause, and how the main thread depends on it."""
    main = next((other for other in case.threads if other.main), None)
    if one.main and each.code == Code.BLOCKED_SLEEP and any(map(_may_work, case.threads)):
        return _RESTS, ("process: other threads live, and the work may be theirs",)
    if main is None or one.main:
        return 1.0, ()
    links = needs.chain(case, main)
    if links and links[-1][1].thread is one:
        told = tuple(line for _, need in links for line in need.evidence)
        return min(need.sure for _, need in links), told
    if not main.parked:
        idle = any(each.code == Code.NONE_IDLE for each in _one_wait(case, main))
        return (_MAY_BE if idle else _SIDE), ()
    place = main.own_frame or (main.frames[0] if main.frames else None)
    at = f"{place.file}:{place.line}" if place else "an unknown place"
    line = f"stacks: MainThread waits in {at}, perhaps for {one.called}"
    if needs.kind_of_wait(case, main) != needs.LOCK:
        return _MAY_BE, (line,)
    for past, need in needs.perhaps_past(case, main):
        if past is one:
            return need.sure, (line, *need.evidence)
    return _MAY_BE, (f"stacks: MainThread waits for a lock in {at}; {one.called} may hold it",)


def _may_work(thread: Thread) -> bool:
    """A side thread that runs Python and is not just an idle member of a pool."""
    idle = thread.parked and thread.within("_worker", file="concurrent/futures/thread.py", depth=1)
    return not thread.main and bool(thread.frames) and not idle


def _one_wait(case: Case, one: Thread) -> Iterator[Diagnosis]:
    seen = f"process: thread {one.tid} ({one.name}) state {one.state} in {one.syscall}"
    seen += f" (wchan {one.wchan})"
    where = f"stacks: {one.where}"
    fd = one.args[0] if one.args else -1
    target = case.descriptors.get(fd, "")
    if one.syscall in ("wait4", "waitid"):
        yield hit(
            Code.BLOCKED_CHILD_PROCESS, 0.9, seen, *_stuck_writers(case), _children(case), where
        )
    elif one.syscall in ("flock", "fcntl"):
        yield hit(Code.BLOCKED_FILE_LOCK, 0.9, seen, _holders(case), where)
    elif one.syscall in ("open", "openat"):
        yield hit(
            Code.BLOCKED_IPC,
            0.85 if "fifo" in one.wchan or "partner" in one.wchan else 0.4,
            seen,
            where,
        )
    elif one.syscall in ACCEPT_CALLS:
        yield hit(Code.NONE_IDLE, 0.55, seen, "sockets: waits for a connection", where)
    elif one.syscall in _SOCKET_CALLS and (fd in case.sockets or target.startswith("socket:")):
        yield from _at_a_socket(case, one, fd, seen)
    elif one.syscall in ("read", "write", "writev") and target.startswith("pipe:"):
        yield from _pipe(case, one, fd, target, seen)
    elif one.syscall in POLL_CALLS:
        yield from _poll(case, one, seen)
    elif one.syscall in SLEEP_CALLS or one.syscall == "pause":
        yield _sleep(one, seen)
    elif one.syscall == "futex" and not one.parked:
        yield hit(Code.NONE_IDLE, 0.3, seen, "process: the wait has a timeout", where)


def _at_a_socket(case: Case, one: Thread, fd: int, seen: str) -> Iterator[Diagnosis]:
    socket, where = _socket(case, fd), f"stacks: {one.where}"
    entry = case.sockets.get(fd, {})
    kind = str(entry.get("kind", ""))
    if one.in_event_loop:
        yield hit(Code.ASYNCIO_LOOP_BLOCKED, 0.9 if one.still else 0.5, seen, socket, where)
    elif kind.startswith("unix") and any(child["state"] != "Z" for child in case.children):
        note = "children: a local socket, whose other end may be a child's"
        yield hit(Code.BLOCKED_EXTERNAL, 0.55, seen, socket, note, where)
        yield hit(Code.BLOCKED_CHILD_PROCESS, 0.5, seen, socket, note, _children(case), where)
    elif kind.startswith("udp") and str(entry.get("peer", "")).rpartition(":")[2] in ("", "0"):
        note = "sockets: no peer is set: it may wait for an answer or for anybody's message"
        yield hit(Code.BLOCKED_EXTERNAL, 0.55, seen, socket, note, where)
        yield hit(Code.NONE_IDLE, 0.4, seen, socket, note, where)
    else:
        yield hit(Code.BLOCKED_EXTERNAL, 0.9 if one.still else 0.5, seen, socket, where)


def _pipe(case: Case, one: Thread, fd: int, target: str, seen: str) -> Iterator[Diagnosis]:
    where = f"stacks: {one.where}"
    child = case.pipe_child(target)
    if child is not None:
        held = f"children: {target} is also open in child {child['pid']} ({child['name']})"
        held += f", state {child['state']} in {child['wchan']}"
        yield hit(Code.BLOCKED_CHILD_PROCESS, 0.85, seen, *_stuck_writers(case), held, where)
        return
    peers = [peer for peer in case.pipe_peers(target) if peer["pid"] != case.pid]
    named = ", ".join(f"{peer['pid']} ({peer['name']}, {peer['end']})" for peer in peers[:4])
    line = f"fds: {fd} is {target}, also open in {named or 'no other process'}"
    if one.syscall == "read":
        yield hit(Code.BLOCKED_IPC, 0.75, seen, line, where)
    elif fd in (1, 2) or any(peer["pid"] == case.parent for peer in peers):
        yield hit(Code.BLOCKED_SUPERVISOR_PIPE, 0.87, seen, line, where)
    elif not peers:  # nobody else can read it: whoever should drain it is in here or is gone
        yield hit(Code.BLOCKED_SUPERVISOR_PIPE, 0.6, seen, line, where)
        yield hit(Code.BLOCKED_IPC, 0.55, seen, line, where)
    else:
        yield hit(Code.BLOCKED_IPC, 0.8, seen, line, where)


def _poll(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    where = f"stacks: {one.where}"
    targets = {fd: case.descriptors.get(fd, "") for fd in one.waits_on}
    sockets = [case.sockets[fd] for fd in targets if fd in case.sockets]
    listens = any(entry["state"] in ("LISTEN", "LISTENING") for entry in sockets)
    pipes = [case.pipe_child(target) for target in targets.values() if target.startswith("pipe:")]
    if not one.still:
        if one.switches > 4:
            yield hit(Code.NONE_PROGRESSING, 0.4, seen, f"movement: {one.switches} wake-ups", where)
    elif one.in_event_loop:
        return  # what its tasks await is told by the rules of event loops
    elif listens:
        yield hit(Code.NONE_IDLE, 0.55, seen, "sockets: waits for a connection", where)
    elif sockets:
        which = "; ".join(_socket(case, entry["fd"]) for entry in sockets[:3])
        yield hit(Code.BLOCKED_EXTERNAL, 0.75, seen, which, where)
    elif any(pipes):
        writers = _stuck_writers(case)
        yield hit(Code.BLOCKED_CHILD_PROCESS, 0.8, seen, *writers, _children(case), where)


def _sleep(one: Thread, seen: str) -> Diagnosis:
    where = f"stacks: {one.where}"
    if one.stack_moved:
        note = f"movement, stacks: {one.switches} wake-ups, at another place in the second sample"
        return hit(Code.NONE_PROGRESSING, 0.45, seen, note, where)
    if one.cpu_ratio > _WORKS:
        note = f"movement: {one.cpu_ratio:.0%} CPU between its sleeps"
        return hit(Code.NONE_PROGRESSING, 0.5, seen, note, where)
    if one.switches > 0:
        return hit(Code.BLOCKED_POLLING, 0.4, seen, f"movement: {one.switches} wake-ups", where)
    if one.in_event_loop:
        return hit(Code.ASYNCIO_LOOP_BLOCKED, 0.85, seen, "stacks: below the event loop", where)
    if one.sleep_left_s is None:
        sure, length = (0.8 if one.syscall == "pause" else 0.55), "process: for how long is unknown"
    else:
        sure = 0.85 if one.sleep_left_s > LONG_S else 0.5
        length = f"process: its sleep ends in {one.sleep_left_s:.0f} s"
        if sure < _MAY_BE:
            length += ": it may be one turn of a loop that is well"
    return hit(Code.BLOCKED_SLEEP, sure, seen, "movement: not one wake-up", length, where)


def _socket(case: Case, fd: int) -> str:
    entry = case.sockets.get(fd)
    if entry is None:
        return f"fds: {fd} is {case.descriptors.get(fd, 'unknown')}"
    text = f"sockets: descriptor {fd} is {entry['kind']} {entry['state']}"
    if entry.get("peer"):
        text += f", peer {entry['peer']}, {entry.get('send_queue_bytes', 0)} bytes not taken by it"
    return text


def _stuck_writers(case: Case) -> tuple[str, ...]:
    """Descendants blocked in a write to a pipe whose other end is open here and not being read."""
    ours = {
        one["fd"]: one["target"]
        for one in case.listed("fds", "fds")
        if "fd" in one and one["fd"] > 0 and one["target"].startswith("pipe:") and _is_read(one)
    }
    read = {
        ours.get(fd)
        for one in case.threads
        for fd in (one.args[:1] if one.syscall == "read" else one.waits_on)
    }
    unread = set(ours.values()) - read
    return tuple(
        f"children: a child blocks writing into a pipe that this process does not read: "
        f"{child['pid']} ({child['name']}), {' or '.join(sorted(unread & set(child['pipes'])))}"
        for child in case.children
        if (child["syscall"] in ("write", "writev") or child["wchan"] in _PIPE_WRITES)
        and child["wchan"] in ("", "0", *_PIPE_WRITES)
        and unread & set(child["pipes"])
    )


def _is_read(descriptor: Payload) -> bool:
    """Whether it is the reading end of a pipe: O_RDONLY in the octal flags of fdinfo."""
    return not int(descriptor.get("flags") or "0", 8) & 3


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
