"""Threads at rest: what a healthy thread does while it has nothing to do.

Secret: which waits are no sign of trouble: time, work from a queue or a pool, connections.
"""

from __future__ import annotations

from autopsy import needs
from autopsy.case import Case, Thread
from autopsy.section import Payload

POLL_CALLS = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"})
SLEEP_CALLS = frozenset({"clock_nanosleep", "nanosleep"})
SIGNAL_CALLS = frozenset({"pause", "rt_sigtimedwait", "rt_sigsuspend", "signalfd"})
ACCEPT_CALLS = frozenset({"accept", "accept4"})
# Data that came more recently than this is a sign of life.
_JUST_MS = 400
# SIGHUP, SIGUSR1, SIGUSR2, SIGTERM: what a main thread that waits for a signal handles.
_WAKING_SIGNALS = (1, 10, 12, 15)
# A shorter sleep may be one turn of a loop that is well.
LONG_S = 60


def only_rests(case: Case, one: Thread) -> bool:
    """Return whether a thread waits for time, for work or for a connection, and for nothing else.

    Such a thread holds up nobody, and nobody can tell from outside whether it ever will act.
    """
    if one.running or (one.owns_gil and all(one.owns_gil)):
        return False
    if one.syscall == "futex":
        kind = needs.kind_of_wait(case, one)
        return not one.parked or kind in (needs.WORK_ITEM, needs.QUEUE_ITEM)
    if one.syscall in SLEEP_CALLS:
        return (one.sleep_left_s or 0) <= LONG_S  # in a longer one it may keep a lock for long
    if one.syscall in SIGNAL_CALLS | ACCEPT_CALLS:
        return True
    return one.syscall in POLL_CALLS and not _has_peer(case, one)


def just_heard(case: Case, one: Thread) -> bool:
    """Return whether data has just come at a socket it waits at: slow perhaps, but no hang."""
    fds = {*one.args[:1], *one.waits_on}
    sockets = [case.sockets[fd] for fd in fds if fd in case.sockets]
    return one.switches > 0 and any(
        bool(entry.get("received_bytes"))
        and entry.get("silent_ms") is not None
        and entry["silent_ms"] < _JUST_MS
        for entry in sockets
    )


def is_served_here(case: Case, socket: Payload) -> bool:
    """Return whether a connection was accepted here: its own port is one this process listens on.

    A server's thread that waits for its client's next request is at rest.
    """
    port = str(socket.get("local", "")).rpartition(":")[2]
    return any(
        str(other.get("local", "")).rpartition(":")[2] == port
        for other in case.sockets.values()
        if other.get("state") == "LISTEN" and port
    )


def _has_peer(case: Case, one: Thread) -> bool:
    """Whether it waits at a socket that is connected to somebody."""
    found = [case.sockets[fd] for fd in one.waits_on if fd in case.sockets]
    return any(
        str(entry.get("kind", "")).startswith("udp")
        or (entry.get("state") not in ("LISTEN", "") and not is_served_here(case, entry))
        for entry in found
    )


def waits_for_signals(case: Case) -> bool:
    """Return whether it handles signals that people send to tell a program something."""
    caught = int((case.process.get("status") or {}).get("SigCgt", "0"), 16)
    return any(caught >> (number - 1) & 1 for number in _WAKING_SIGNALS)


def may_work(thread: Thread) -> bool:
    """A side thread that runs Python and is not just an idle member of a pool."""
    idle = thread.parked and thread.within("_worker", file="concurrent/futures/thread.py", depth=1)
    return not thread.main and bool(thread.frames) and not idle
