"""Threads that wait for the other end: of a socket, a pipe, a terminal, or for a child's end.

Secret: what is known of who is at the other end, and what that makes of the wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from autopsy.case import Case, Thread
from autopsy.cause import Code, Diagnosis, hit
from autopsy.rule import asleep
from autopsy.rule.rest import is_served_here, just_heard
from autopsy.section import Payload

_PIPE_WAITS = ("pipe_read", "pipe_write")
# Where the standard library waits for a child that it has started.
_OF_A_CHILD = ("communicate", "_communicate", "check_output", "run")
# With no descriptor these are sleeps; of epoll the descriptors may just not be known.
_SLEEPING_POLLS = ("poll", "ppoll", "select", "pselect6")
_READS = ("read", "readv")
_PIPE_WRITES = ("pipe_write", "anon_pipe_write")
TRANSFER_CALLS = frozenset(
    {"read", "readv", "write", "writev", "recvfrom", "recvmsg", "sendto", "sendmsg", "connect"}
    | {"recvmmsg", "sendmmsg", "sendfile", "splice"}
)
# Such a call returns only when something has come or gone, but for what our own looks cost.
_FLOWING_SWITCHES = 3
_POLL_TURNS = 4


def for_a_child(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """It waits for a child process to end; one that is on the CPU may well be at work."""
    lines = (*_stuck_writers(case), _children(case), f"stacks: {one.where}")
    works = any(child["state"] == "R" for child in case.children)
    yield hit(Code.BLOCKED_CHILD_PROCESS, 0.78 if works else 0.9, seen, *lines)


def for_a_file_lock(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """It waits for a lock on a file."""
    yield hit(Code.BLOCKED_FILE_LOCK, 0.9, seen, _holders(case), f"stacks: {one.where}")


def for_a_partner(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """It opens something that somebody else must open too: a FIFO."""
    fifo = "fifo" in one.wchan or "partner" in one.wchan
    looks = case.listed("process", "threads")
    opened = next((str(look.get("opens") or "") for look in looks if look["tid"] == one.tid), "")
    named = (f"process: it opens {opened}",) if opened else ()
    yield hit(Code.BLOCKED_IPC, 0.85 if fifo else 0.4, seen, *named, f"stacks: {one.where}")


def for_a_connection(_: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """It accepts: a server at rest."""
    yield hit(Code.NONE_IDLE, 0.55, seen, "sockets: waits for a connection", f"stacks: {one.where}")


def at_a_semaphore(_: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """A semaphore of System V, which is shared with other processes."""
    yield hit(Code.DEADLOCK_CROSS_PROCESS, 0.7, seen, f"stacks: {one.where}")


def at_a_queue(_: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """A message queue of the kernel."""
    yield hit(Code.BLOCKED_IPC, 0.7, seen, f"stacks: {one.where}")


def at_a_descriptor(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """It reads or writes: what is at the other end says the rest."""
    fd = one.args[0] if one.args else -1
    target = case.descriptors.get(fd, "")
    if one.switches > _FLOWING_SWITCHES:
        note = f"movement: {one.switches} wake-ups: what it waits for keeps coming"
        yield hit(Code.NONE_PROGRESSING, 0.62, seen, note, f"stacks: {one.where}")
        return
    if fd in case.sockets or target.startswith("socket:"):
        yield from _at_a_socket(case, one, fd, seen)
    elif target.startswith("pipe:") or any(name in one.wchan for name in _PIPE_WAITS):
        yield from _at_a_pipe(case, one, fd, target, seen)
    elif one.syscall in _READS:
        yield from _special_file(case, fd, target, seen, f"stacks: {one.where}")


def _at_a_socket(case: Case, one: Thread, fd: int, seen: str) -> Iterator[Diagnosis]:
    socket, where = _socket(case, fd), f"stacks: {one.where}"
    entry = case.sockets.get(fd, {})
    kind = str(entry.get("kind", ""))
    if one.in_event_loop:
        yield hit(Code.ASYNCIO_LOOP_BLOCKED, 0.9 if one.still else 0.5, seen, socket, where)
    elif one.syscall != "connect" and just_heard(case, one):
        yield from _data_flows(one, seen, socket)
    elif kind.startswith("unix"):
        yield from _at_a_local_socket(case, entry, seen, socket, where)
    elif kind.startswith("udp") and str(entry.get("peer", "")).rpartition(":")[2] in ("", "0"):
        note = "sockets: no peer is set: it may wait for an answer or for anybody's message"
        yield hit(Code.BLOCKED_EXTERNAL, 0.55, seen, socket, note, where)
        yield hit(Code.NONE_IDLE, 0.4, seen, socket, note, where)
    elif is_served_here(case, entry):
        yield from _between_requests(one, seen, socket)
    else:
        yield hit(Code.BLOCKED_EXTERNAL, 0.9 if one.still else 0.5, seen, socket, where)


def _data_flows(one: Thread, seen: str, socket: str) -> Iterator[Diagnosis]:
    note = f"sockets, movement: data has just come, {one.switches} wake-ups"
    yield hit(Code.NONE_PROGRESSING, 0.6, seen, socket, note, f"stacks: {one.where}")
    yield hit(Code.BLOCKED_EXTERNAL, 0.4, seen, socket, note, f"stacks: {one.where}")


def _between_requests(one: Thread, seen: str, socket: str) -> Iterator[Diagnosis]:
    note = "sockets: it was accepted here: a client that asks for nothing at the moment"
    yield hit(Code.NONE_IDLE, 0.5, seen, socket, note, f"stacks: {one.where}")
    yield hit(Code.BLOCKED_EXTERNAL, 0.48, seen, socket, note, f"stacks: {one.where}")


def _at_a_local_socket(
    case: Case, entry: Payload, seen: str, socket: str, where: str
) -> Iterator[Diagnosis]:
    peer = entry.get("peer_process") or {}
    children = [child for child in case.children if child["state"] != "Z"]
    named = entry.get("local") or entry.get("peer")  # a server's; a pair for a child has no name
    if not named and any(child["pid"] == peer.get("pid") for child in children):
        note = f"sockets: the other end is its child {peer['pid']} ({peer['name']})"
        yield hit(Code.BLOCKED_CHILD_PROCESS, 0.85, seen, socket, note, _children(case), where)
    elif entry.get("own_peer") is not None:
        note = f"sockets: the other end is its own descriptor {entry['own_peer']}"
        yield hit(Code.BLOCKED_EXTERNAL, 0.6, seen, socket, note, where)
        yield hit(Code.BLOCKED_IPC, 0.5, seen, socket, note, where)
    elif children and not peer:
        note = "children: a local socket, whose other end may be a child's"
        yield hit(Code.BLOCKED_EXTERNAL, 0.55, seen, socket, note, where)
        yield hit(Code.BLOCKED_CHILD_PROCESS, 0.5, seen, socket, note, _children(case), where)
    else:
        yield hit(Code.BLOCKED_EXTERNAL, 0.88, seen, socket, where)


def _special_file(case: Case, fd: int, target: str, seen: str, where: str) -> Iterator[Diagnosis]:
    """What is no socket and no pipe and still makes its reader wait."""
    line = f"fds: {fd} is {target}"
    if target.startswith(("/dev/ptmx", "/dev/pts/", "/dev/tty")):
        child = _child_at_terminal(case)
        if child and target.startswith("/dev/ptmx"):
            yield hit(Code.BLOCKED_CHILD_PROCESS, 0.8, seen, line, child, _children(case), where)
        else:
            yield hit(
                Code.BLOCKED_IPC, 0.6, seen, line, "fds: it waits for somebody to type", where
            )
    elif "eventfd" in target:
        yield hit(Code.BLOCKED_IPC, 0.6, seen, line, where)
        yield hit(Code.WAIT_NO_WAKER, 0.55, seen, line, where)
    elif "timerfd" in target:
        yield hit(Code.BLOCKED_SLEEP, 0.6, seen, line, where)
    elif "inotify" in target or "signalfd" in target:
        yield hit(Code.NONE_IDLE, 0.55, seen, line, where)


def _child_at_terminal(case: Case) -> str:
    """The child at the other side of a terminal that this process made; empty if none."""
    ids = {child["pid"] for child in case.children}
    for name, peers in ((case.sections.get("fds") or {}).get("pipe_peers") or {}).items():
        for peer in peers if name.startswith("/dev/pts/") else ():
            if peer.get("pid") in ids:
                return f"fds: at the terminal {name} is its child {peer['pid']} ({peer['name']})"
    return ""


def _at_a_pipe(case: Case, one: Thread, fd: int, target: str, seen: str) -> Iterator[Diagnosis]:
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
    if one.within(*_OF_A_CHILD, file="subprocess.py"):  # its own child has left it to a grandchild
        yield hit(Code.BLOCKED_CHILD_PROCESS, 0.78, seen, line, _children(case), where)
    elif one.syscall in _READS:
        yield hit(Code.BLOCKED_IPC, 0.75, seen, line, where)
    elif fd in (1, 2) or any(peer["pid"] == case.parent for peer in peers):
        yield hit(Code.BLOCKED_SUPERVISOR_PIPE, 0.87, seen, line, where)
    elif not peers:  # nobody else can read it: whoever should drain it is in here or is gone
        yield hit(Code.BLOCKED_SUPERVISOR_PIPE, 0.6, seen, line, where)
        yield hit(Code.BLOCKED_IPC, 0.55, seen, line, where)
    else:
        yield hit(Code.BLOCKED_IPC, 0.8, seen, line, where)


def poll(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """Wait for any of several descriptors."""
    if not one.waits_on and one.syscall in _SLEEPING_POLLS:
        yield from asleep.poll_of_nothing(one, seen)
        return
    targets = {fd: case.descriptors.get(fd, "") for fd in one.waits_on}
    sockets = [case.sockets[fd] for fd in targets if fd in case.sockets]
    pipes = [case.pipe_child(target) for target in targets.values() if target.startswith("pipe:")]
    where = f"stacks: {one.where}"
    if not one.still:
        if one.switches > _POLL_TURNS:
            yield hit(Code.NONE_PROGRESSING, 0.4, seen, f"movement: {one.switches} wake-ups", where)
    elif one.in_event_loop:
        return  # what its tasks await is told by the rules of event loops
    elif sockets:
        yield from _poll_of_sockets(case, one, seen, sockets)
    elif pipes and not any(pipes):
        yield from _poll_of_strangers(case, one, seen)
    elif any(pipes):
        writers = _stuck_writers(case)
        yield hit(Code.BLOCKED_CHILD_PROCESS, 0.8, seen, *writers, _children(case), where)


def _poll_of_sockets(
    case: Case, one: Thread, seen: str, sockets: list[Payload]
) -> Iterator[Diagnosis]:
    where, first = f"stacks: {one.where}", _socket(case, sockets[0]["fd"])
    if any(entry["state"] == "LISTEN" for entry in sockets):
        yield hit(Code.NONE_IDLE, 0.55, seen, "sockets: waits for a connection", where)
    elif just_heard(case, one):
        yield from _data_flows(one, seen, first)
    elif all(is_served_here(case, entry) for entry in sockets):
        yield from _between_requests(one, seen, first)
    else:
        which = "; ".join(_socket(case, entry["fd"]) for entry in sockets[:3])
        yield hit(Code.BLOCKED_EXTERNAL, 0.75, seen, which, where)


def _poll_of_strangers(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """It waits at pipes that no child of its own has open: a grandchild left behind, or nobody."""
    targets = {case.descriptors.get(fd, "") for fd in one.waits_on}
    peers = [peer for name in targets for peer in case.pipe_peers(name) if peer["pid"] != case.pid]
    where = f"stacks: {one.where}"
    if not peers:
        yield hit(Code.NONE_IDLE, 0.4, seen, "fds: the pipes it waits at are its own", where)
        return
    named = ", ".join(f"{peer['pid']} ({peer['name']}, {peer['end']})" for peer in peers[:4])
    line = f"fds: the pipes it waits at are also open in {named}"
    own = one.within(*_OF_A_CHILD, file="subprocess.py")
    yield hit(Code.BLOCKED_IPC, 0.6 if own else 0.65, seen, line, where)
    yield hit(Code.BLOCKED_CHILD_PROCESS, 0.75 if own else 0.6, seen, line, _children(case), where)


def _socket(case: Case, fd: int) -> str:
    entry = case.sockets.get(fd)
    if entry is None:
        return f"fds: {fd} is {case.descriptors.get(fd, 'unknown')}"
    text = f"sockets: descriptor {fd} is {entry['kind']} {entry['state']}"
    if entry.get("peer"):
        text += f", peer {entry['peer']}, {entry.get('send_queue_bytes', 0)} bytes not taken by it"
    process = entry.get("peer_process") or {}
    if process.get("pid"):
        text += f", which is process {process['pid']} ({process.get('name', '')})"
    if entry.get("silent_ms") is not None:
        text += f", silent for {entry['silent_ms'] / 1000:.1f} s"
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
        for fd in (one.args[:1] if one.syscall in _READS else one.waits_on)
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
