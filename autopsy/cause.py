"""The shape of an answer and what each code means, apart from the rules that find it.

Secret: the table of codes; reports, docs/diagnoses.md and people read the same sentences.
Invariants: no rule yields a code without a meaning; a bundle is written without loading the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One possible cause: its code, how sure we are (0 to 1) and what was read where."""

    code: str
    confidence: float
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code says, and what a person does next; a sentence or two of English each."""

    sentence: str
    remedy: str


class Code(StrEnum):
    """Every cause a diagnosis can name."""

    DEADLOCK_IN_PROCESS = "deadlock.in_process"
    DEADLOCK_CROSS_PROCESS = "deadlock.cross_process"
    WAIT_NO_WAKER = "wait.no_waker"
    EXIT_HUNG_SHUTDOWN = "exit.hung_shutdown"
    BLOCKED_EXTERNAL = "blocked.external"
    BLOCKED_CHILD_PROCESS = "blocked.child_process"
    BLOCKED_FILE_LOCK = "blocked.file_lock"
    BLOCKED_IPC = "blocked.ipc"
    BLOCKED_SUPERVISOR_PIPE = "blocked.supervisor_pipe"
    BLOCKED_SLEEP = "blocked.sleep"
    BLOCKED_POLLING = "blocked.polling"
    BLOCKED_NATIVE_GIL = "blocked.native_gil"
    ASYNCIO_LOOP_BLOCKED = "asyncio.loop_blocked"
    ASYNCIO_PENDING_FOREVER = "asyncio.pending_forever"
    BUSY_PYTHON = "busy.python"
    BUSY_NATIVE = "busy.native"
    BUSY_NATIVE_GIL = "busy.native_gil"
    BUSY_LIVELOCK = "busy.livelock"
    UNINTERRUPTIBLE = "uninterruptible"
    STOPPED_SIGNAL = "stopped.signal"
    STOPPED_TRACED = "stopped.traced"
    STOPPED_FROZEN = "stopped.frozen"
    LEAK_FDS = "leak.fds"
    LEAK_SOCKETS = "leak.sockets"
    LEAK_THREADS = "leak.threads"
    LEAK_ZOMBIES = "leak.zombies"
    ZOMBIE_PROCESS = "zombie.process"
    NONE_EXITED = "none.exited"
    NONE_IDLE = "none.idle"
    NONE_PROGRESSING = "none.progressing"
    UNKNOWN = "unknown"


MEANINGS: Mapping[str, Meaning] = MappingProxyType(
    {
        Code.DEADLOCK_IN_PROCESS: Meaning(
            "Threads of this process wait for locks that nobody will release.",
            "Take the named locks in one order everywhere, or with a timeout; then restart it.",
        ),
        Code.DEADLOCK_CROSS_PROCESS: Meaning(
            "A thread waits for a lock in memory shared with another process that keeps it.",
            "Look at the other processes (autopsy them too); if the holder died, restart them all.",
        ),
        Code.WAIT_NO_WAKER: Meaning(
            "All threads wait for an event, an item or a thread, and none is left to bring it.",
            "Find who should have notified it and did not, or wait with a timeout.",
        ),
        Code.EXIT_HUNG_SHUTDOWN: Meaning(
            "The program has finished, but the interpreter waits for a thread that does not end.",
            "End that thread before leaving, or make it a daemon thread; killing it now is safe.",
        ),
        Code.BLOCKED_EXTERNAL: Meaning(
            "A thread waits for the other end of a socket, which does not answer or read.",
            "Look at the named peer, and give the connection a timeout.",
        ),
        Code.BLOCKED_CHILD_PROCESS: Meaning(
            "A thread waits for a child process that does not end or does not move.",
            "Autopsy the child, read the pipes it writes to, and wait for it with a timeout.",
        ),
        Code.BLOCKED_FILE_LOCK: Meaning(
            "A thread waits for a file lock that a process holds.",
            "Look at the named holder; ask for the lock without blocking, and retry with a limit.",
        ),
        Code.BLOCKED_IPC: Meaning(
            "A thread waits at a pipe or FIFO whose other end does not read, write or open it.",
            "Find who should be at the other end of the named pipe, or give up after a timeout.",
        ),
        Code.BLOCKED_SUPERVISOR_PIPE: Meaning(
            "A thread writes to its standard output, which is a full pipe that nobody reads.",
            "Drain the pipe where the process was started, or send its output to a file.",
        ),
        Code.BLOCKED_SLEEP: Meaning(
            "A thread sleeps in one long sleep.",
            "Check the length of the sleep at the named line, and whether it should sleep there.",
        ),
        Code.BLOCKED_POLLING: Meaning(
            "A thread asks again and again, in short sleeps, for something that does not come.",
            "Find what the named loop waits for, and give the loop a deadline.",
        ),
        Code.BLOCKED_NATIVE_GIL: Meaning(
            "A thread sleeps in native code without releasing the GIL, so no other thread can run.",
            "Update or replace the named extension, or run that call in a process of its own.",
        ),
        Code.ASYNCIO_LOOP_BLOCKED: Meaning(
            "A blocking call runs in the thread of the event loop, so no coroutine can run.",
            "Await an asynchronous call instead, or move the named one to asyncio.to_thread.",
        ),
        Code.ASYNCIO_PENDING_FOREVER: Meaning(
            "The event loop is idle: coroutines, if any, wait for something that does not come.",
            "Give awaits a deadline (asyncio.timeout); to see who waits, have a signal handler "
            "print the stack of each of asyncio.all_tasks().",
        ),
        Code.BUSY_PYTHON: Meaning(
            "A thread runs Python code all the time.",
            "Look at the named loop; if it is slow rather than endless, give the task more time.",
        ),
        Code.BUSY_NATIVE: Meaning(
            "A thread computes in native code without holding the GIL.",
            "Check the size of what is given to the named call, or give the task more time.",
        ),
        Code.BUSY_NATIVE_GIL: Meaning(
            "One long operation of native code or of the interpreter holds the GIL throughout.",
            "Check the input of the named line (regular expression, huge number, extension call).",
        ),
        Code.BUSY_LIVELOCK: Meaning(
            "Threads keep taking and giving back locks, and none of them gets on.",
            "Take the locks in one order with a blocking acquire, or back off for random times.",
        ),
        Code.UNINTERRUPTIBLE: Meaning(
            "A thread waits in the kernel where no signal reaches it, mostly for a disk or mount.",
            "Look at the file system or device it uses; even SIGKILL works only when that answers.",
        ),
        Code.STOPPED_SIGNAL: Meaning(
            "The process was stopped by a signal (SIGSTOP, or Ctrl-Z in a shell).",
            "Continue it with kill -CONT PID; nothing inside it is wrong.",
        ),
        Code.STOPPED_TRACED: Meaning(
            "A debugger or tracer holds the process.",
            "Detach or end the tracer whose pid is named.",
        ),
        Code.STOPPED_FROZEN: Meaning(
            "The control group of the process is frozen.",
            "Thaw the control group, or unpause the container.",
        ),
        Code.LEAK_FDS: Meaning(
            "The process has nearly used up the descriptors it may open.",
            "See in the list of descriptors which kind repeats, and close those after use.",
        ),
        Code.LEAK_SOCKETS: Meaning(
            "Many connections that the peer has closed were never closed here.",
            "Close the connections to the named peer after use (a with block, or a session).",
        ),
        Code.LEAK_THREADS: Meaning(
            "The process has far more threads than a program needs.",
            "See in the stacks where most of them wait, and use a pool of bounded size there.",
        ),
        Code.LEAK_ZOMBIES: Meaning(
            "Many children have ended and were never waited for.",
            "Wait for children after they end (Popen.wait, or a with block).",
        ),
        Code.ZOMBIE_PROCESS: Meaning(
            "The process is dead; its parent has not yet taken its exit status.",
            "Look at the parent: it must wait for its children. Nothing is left to see in here.",
        ),
        Code.NONE_EXITED: Meaning(
            "The process ended while it was looked at.",
            "Look at its exit status and at its last log lines; it was not stuck for ever.",
        ),
        Code.NONE_IDLE: Meaning(
            "The process waits for work, and nothing shows that it is stuck.",
            "Check that work is sent to it; if it should be working, look at the stacks below.",
        ),
        Code.NONE_PROGRESSING: Meaning(
            "The process moves: it looks slow rather than stuck.",
            "Look again later and compare; let the task report progress, or give it more time.",
        ),
        Code.UNKNOWN: Meaning(
            "No rule fits what was seen.",
            "Read the stacks below; look again as root or with SYS_PTRACE if sections are missing.",
        ),
    }
)


def hit(code: Code, confidence: float, *evidence: str) -> Diagnosis:
    """Make the diagnosis of a rule; every line of evidence names the section it was read in."""
    return Diagnosis(code.value, round(confidence, 2), evidence)


def meaning(code: str) -> Meaning | None:
    """Return what a code means; None for a code of another version."""
    return MEANINGS.get(code)
