"""The shape of an answer and what each code means, apart from the rules that find it.

Secret: the table of codes; reports, docs/diagnoses.md and people read the same sentences.
Invariants: no rule yields a code without a meaning; a bundle is written without loading the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

#: Counted up when rules change so that the same evidence may give another answer.
RULES_VERSION = 2


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
    DEADLOCK_HYBRID = "deadlock.hybrid"
    DEADLOCK_DB_SELF = "deadlock.db_self"
    WAIT_NO_WAKER = "wait.no_waker"
    EXIT_HUNG_SHUTDOWN = "exit.hung_shutdown"
    BLOCKED_EXTERNAL = "blocked.external"
    BLOCKED_DB_LOCK = "blocked.db_lock"
    BLOCKED_DB_QUERY = "blocked.db_query"
    BLOCKED_DISTRIBUTED_LOCK = "blocked.distributed_lock"
    BLOCKED_CHILD_PROCESS = "blocked.child_process"
    BLOCKED_FILE_LOCK = "blocked.file_lock"
    BLOCKED_IPC = "blocked.ipc"
    BLOCKED_SUPERVISOR_PIPE = "blocked.supervisor_pipe"
    BLOCKED_SLEEP = "blocked.sleep"
    BLOCKED_POLLING = "blocked.polling"
    BLOCKED_NATIVE_GIL = "blocked.native_gil"
    ASYNCIO_DEADLOCK = "asyncio.deadlock"
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
    LEAK_TASKS = "leak.tasks"
    LEAK_DB_CONNECTIONS = "leak.db_connections"
    LEAK_MEMORY_PYTHON = "leak.memory_python"
    LEAK_MEMORY_NATIVE = "leak.memory_native"
    STARVED_HOST = "starved.host"
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
        Code.DEADLOCK_HYBRID: Meaning(
            "A thread holds a lock and waits for a row in the database; the connection that has "
            "the row belongs to another thread here, which waits for that lock.",
            "Never hold a lock across a statement; take the lock and the row in one order.",
        ),
        Code.DEADLOCK_DB_SELF: Meaning(
            "The process waits in the database for a lock that another of its own connections has.",
            "Use one connection for one piece of work, and commit the first before the second.",
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
        Code.BLOCKED_DB_LOCK: Meaning(
            "A statement waits in the database for a lock that another connection holds.",
            "End the named blocker's transaction (commit, or pg_terminate_backend with its pid), "
            "and set lock_timeout.",
        ),
        Code.BLOCKED_DB_QUERY: Meaning(
            "The database is executing the statement: it is slow, and not waiting for a lock.",
            "Look at the plan of the named query (EXPLAIN), and set statement_timeout.",
        ),
        Code.BLOCKED_DISTRIBUTED_LOCK: Meaning(
            "A thread tries again and again to take a lock in a server that somebody else has.",
            "Find the owner in the value of the lock's key; give the lock a time to live.",
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
        Code.ASYNCIO_DEADLOCK: Meaning(
            "Tasks of the event loop wait for each other in a circle.",
            "Take the named locks in one order everywhere, or give each await a deadline.",
        ),
        Code.ASYNCIO_LOOP_BLOCKED: Meaning(
            "A blocking call runs in the thread of the event loop, so no coroutine can run.",
            "Await an asynchronous call instead, or move the named one to asyncio.to_thread.",
        ),
        Code.ASYNCIO_PENDING_FOREVER: Meaning(
            "The event loop is idle: its tasks await something that does not come.",
            "Find who should complete what the named task awaits; give awaits a deadline "
            "(asyncio.timeout).",
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
        Code.LEAK_TASKS: Meaning(
            "The event loop has far more tasks than a program needs, most in the same await.",
            "Limit how many are started at once (a semaphore, a queue with workers), and await "
            "them.",
        ),
        Code.LEAK_DB_CONNECTIONS: Meaning(
            "All connections of the pool are taken and none comes back: a thread waits for one.",
            "Return connections after use (a with block); see which code keeps the named ones.",
        ),
        Code.LEAK_MEMORY_PYTHON: Meaning(
            "Python objects take the memory, and there are more of them than the work needs.",
            "See the named types and containers; bound the cache, or work in batches.",
        ),
        Code.LEAK_MEMORY_NATIVE: Meaning(
            "Memory was taken outside of Python (an extension, malloc, mmap) and never given back.",
            "Look at the extensions the task calls; free what they return, or update them.",
        ),
        Code.STARVED_HOST: Meaning(
            "The process is ready to run and gets no CPU: the host or its own CPU limit is used "
            "up.",
            "Look for what else runs on the host, or raise the CPU limit of its control group.",
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
