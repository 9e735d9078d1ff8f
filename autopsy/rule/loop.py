"""Event loops: tasks that wait for each other, for nobody, or that are far too many.

Secret: what the tasks of an idle loop await, as read in the memory of the interpreter. Without that
only the idle loop is seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from autopsy.case import Case, Thread
from autopsy.cause import Code, Diagnosis, hit
from autopsy.rule.rest import POLL_CALLS, is_served_here
from autopsy.section import Payload

_TASKS_MANY, _TASKS_TOO_MANY = 1000, 5000
_ALIKE = 0.8
_SERVES = ("serve_forever", "_serve", "start_serving", "run_app", "serve")
_READS = (
    "_wait_for_data",
    "sock_recv",
    "sock_connect",
    "sock_accept",
    "create_connection",
    "drain",
)
_CHILDREN = ("asyncio/subprocess.py", "asyncio/base_subprocess.py")
_MANY = 5


def loops(case: Case) -> Iterator[Diagnosis]:
    """Name what the tasks of the event loops tell."""
    yield from _crowds(case)
    circles = list(_circles(case))
    yield from circles
    for one in case.threads:
        if one.in_event_loop and one.syscall in POLL_CALLS and one.still and not circles:
            yield from _idle_loop(case, one)


def _crowds(case: Case) -> Iterator[Diagnosis]:
    payload = case.sections.get("asyncio") or {}
    total = int(payload.get("total") or 0)
    shapes = case.listed("asyncio", "shapes")
    if total < _TASKS_MANY or not shapes:
        return
    largest = max(shapes, key=lambda one: int(one["count"]))
    if largest["count"] < _ALIKE * total:
        largest_two = sum(sorted((int(one["count"]) for one in shapes), reverse=True)[:2])
        if largest_two < _ALIKE * total:
            return
    line = f"asyncio: {total} tasks, {largest['count']} of them in {_innermost(largest)}"
    tasks = list(case.tasks.values())
    # Clients that are quiet and pauses that end are no leak, however many.
    served = sum(task.get("woken_by") in ("timer", "io") for task in tasks)
    sure = 0.9 if total >= _TASKS_TOO_MANY else 0.78
    yield hit(Code.LEAK_TASKS, 0.55 if served > len(tasks) / 2 else sure, line)


def _circles(case: Case) -> Iterator[Diagnosis]:
    for circle in (case.sections.get("asyncio") or {}).get("cycles") or []:
        members = [case.tasks[one] for one in circle if one in case.tasks]
        if members:
            lines = [_task_line(one) for one in members[:_MANY]]
            yield hit(Code.ASYNCIO_DEADLOCK, 0.96, *lines)


def _idle_loop(case: Case, one: Thread) -> Iterator[Diagnosis]:
    seen = f"process: thread {one.tid} ({one.name}) is an idle event loop in {one.syscall}"
    tasks = list(case.tasks.values())
    where = f"stacks: {one.where}"
    sockets = [case.sockets[fd] for fd in one.waits_on if fd in case.sockets]
    listens = any(entry["state"] == "LISTEN" for entry in sockets)
    if not tasks:
        unseen = "stacks: which coroutine waits cannot be seen from outside the process"
        yield hit(Code.ASYNCIO_PENDING_FOREVER, 0.4 if listens else 0.5, seen, unseen, where)
        if listens:
            yield hit(Code.NONE_IDLE, 0.5, seen, "sockets: it also listens", where)
        return
    stuck = [task for task in tasks if not _rests(task)]
    lines = tuple(_task_line(task) for task in (stuck or tasks)[:_MANY])
    if not stuck:
        yield hit(Code.NONE_IDLE, 0.6, seen, *lines)
        return
    worst = max(stuck, key=_suspicion)
    if listens and _suspicion(worst) < 3:
        yield hit(Code.NONE_IDLE, 0.5, seen, "sockets: it also listens", *lines)
    yield hit(Code.ASYNCIO_PENDING_FOREVER, _pending(case, worst, listens), seen, *lines)
    peers = [entry for entry in sockets if entry.get("peer") and not is_served_here(case, entry)]
    if peers and any(_within(task, _READS) for task in stuck):
        line = f"sockets: descriptor {peers[0]['fd']} {peers[0]['state']}, peer {peers[0]['peer']}"
        yield hit(Code.BLOCKED_EXTERNAL, 0.6, seen, line, *lines)
    if any(_in_file(task, _CHILDREN) for task in stuck) and case.children:
        child = case.children[0]
        line = f"children: {child['pid']} ({child['name']}) state {child['state']}"
        yield hit(Code.BLOCKED_CHILD_PROCESS, 0.6, seen, line, *lines)


def _pending(case: Case, worst: Payload, listens: bool) -> float:
    """Surer, the less could still wake the task."""
    if _executor_works(case):
        return 0.4
    if worst.get("woken_by") == "nobody":
        return 0.6 if listens else 0.85
    return 0.65


def _executor_works(case: Case) -> bool:
    """Whether a thread of a pool is in the middle of a call that a task may await."""
    return any(
        one.within("run", file="concurrent/futures/thread.py") and not one.in_event_loop
        for one in case.threads
    )


def _rests(task: Payload) -> bool:
    """Whether a task waits for time, to be told to stop, or serves: healthy ones do all day."""
    return (
        task.get("woken_by") in ("timer", "signal")
        or _within(task, _SERVES)
        or task["state"] != "pending"
    )


def _suspicion(task: Payload) -> int:
    """Nobody will wake it (3), it waits for another task or a lock (2), for input (1)."""
    if task.get("woken_by") == "nobody":
        return 3
    return 2 if task.get("awaits_task") or task.get("waits_lock") else 1


def _within(task: Payload, functions: tuple[str, ...]) -> bool:
    return any(
        str(frame.get("function", "")).rpartition(".")[2] in functions for frame in task["stack"]
    )


def _in_file(task: Payload, files: tuple[str, ...]) -> bool:
    return any(name in str(frame.get("file", "")) for frame in task["stack"] for name in files)


def _task_line(task: Payload) -> str:
    held = ", ".join(str(one.get("name") or one.get("id")) for one in task.get("holds") or [])
    wants = task.get("waits_name") or task.get("waits_lock")
    parts = [f"asyncio: task {task.get('name')} awaits {task.get('awaits') or 'something'}"]
    parts += [f"wants {wants}"] if wants else []
    parts += [f"holds {held}"] if held else []
    return ", ".join(parts) + f" in {_innermost(task)}"


def _innermost(entry: Payload) -> str:
    """The innermost call of the program's own code, or of any."""
    frames = [frame for frame in entry["stack"] if "function" in frame]
    own = [one for one in frames if "/asyncio/" not in one["file"]]
    best = (own or frames or [None])[0]
    return f"{best['function']} ({best['file']}:{best['line']})" if best else "an unknown place"
