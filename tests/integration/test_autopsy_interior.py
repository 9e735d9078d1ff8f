"""Real processes read from their memory alone: locks, tasks, pools, and what cannot be read."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autopsy.collect import procfs
from autopsy.collect.interior import Interior
from autopsy.collect.patient import open_patient
from autopsy.cpython import layout, locklist, pool, tasklist
from autopsy.cpython.census import find
from autopsy.cpython.interpreter import Interpreter, open_interpreter
from autopsy.cpython.reader import Memory, OutOfTime, Unreadable
from autopsy.section import Skipped

PROGRAMS = Path(__file__).parents[1] / "programs"
# Another build of the same version: linked without a library of its own.
STATIC = "/usr/bin/python3.11"

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="reads 3.11 only")


@contextmanager
def running(*command: str) -> Iterator[int]:
    """Run a program that says when it is ready; yield its pid once its threads are asleep."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready")
            yield process.pid
        finally:
            process.kill()


@contextmanager
def program(name: str) -> Iterator[int]:
    with running(sys.executable, str(PROGRAMS / name)) as pid:
        yield pid


def code(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


def opened(pid: int, seconds: float = 20.0) -> Interpreter:
    return open_interpreter(pid, time.monotonic() + seconds)


def eventually_waiting(pid: int, count: int) -> dict[str, Any]:
    """Return the locks once so many threads wait: what follows "ready" takes its time."""
    deadline = time.monotonic() + 30
    while True:
        found = locklist.collect(opened(pid))
        if len(found["waits"]) >= count or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


# Locks


@pytest.fixture(scope="module")
def locks() -> Iterator[dict[str, Any]]:
    with program("interior_locks.py") as pid:
        yield eventually_waiting(pid, 23)


def test_every_lock_has_its_holder(locks: dict[str, Any]) -> None:
    found = {one["name"]: (one["kind"], one["holder_name"], one["count"]) for one in locks["locks"]}
    assert found == {
        "bare_lock": ("Lock", "holds_bare", 1),
        "managed": ("Lock", "holds_managed", 1),
        "stacked": ("Lock", "holds_stacked", 1),
        "called_back": ("Lock", "holds_stacked", 1),
        "Box._guard": ("Lock", "holds_box", 1),
        "outer": ("Lock", "holds_nested", 1),
        "inner": ("Lock", "holds_nested", 1),
        "Box.locks[1]": ("Lock", "holds_nested", 1),
        "kept": ("Lock", "holds_kept", 1),
        "reentrant": ("RLock", "holds_reentrant", 2),
        "gate": ("Semaphore", "holds_gate", 1),
        "shared": ("SemLock", "MainThread", 1),
    }
    assert all(one["locked"] and one["holder_alive"] for one in locks["locks"])
    assert [one["name"] for one in locks["locks"] if one["shared"]] == ["shared"]


def test_the_line_where_each_was_taken(locks: dict[str, Any]) -> None:
    lines = (PROGRAMS / "interior_locks.py").read_text().splitlines()
    taken = {
        one["name"]: lines[one["held_at"]["line"] - 1].strip()
        for one in locks["locks"]
        if one["held_at"]
    }
    assert taken == {
        "bare_lock": "bare_lock.acquire()",
        "managed": "with locked(managed):",
        "stacked": "with contextlib.ExitStack() as stack:",
        "called_back": "with contextlib.ExitStack() as stack:",
        "Box._guard": "with box:",
        "outer": "with outer:",
        "inner": "with inner, box.locks[1]:",
        "Box.locks[1]": "with inner, box.locks[1]:",
        "kept": "kept.acquire()",
        "reentrant": "with reentrant, reentrant:",
        "gate": "with gate:",
        "shared": "shared.acquire()",
    }


def test_what_every_thread_waits_for(locks: dict[str, Any]) -> None:
    found = {one["thread"]: (one["for"], one["name"]) for one in locks["waits"]}
    assert found == {
        "takes-bare_lock": ("lock", "bare_lock"),
        "takes-managed": ("lock", "managed"),
        "takes-stacked": ("lock", "stacked"),
        "takes-called_back": ("lock", "called_back"),
        "takes-box": ("lock", "Box._guard"),
        "takes-outer": ("lock", "outer"),
        "takes-inner": ("lock", "inner"),
        "takes-element": ("lock", "Box.locks[1]"),
        "takes-kept": ("lock", "kept"),
        "takes-reentrant": ("lock", "reentrant"),
        "takes-gate": ("semaphore", "gate"),
        "takes-shared": ("lock", "shared"),
        "acquires-kept": ("lock", "kept"),
        "timed": ("lock", "outer"),
        "item": ("queue item", "empty"),
        "space": ("queue item", "full"),
        "simple": ("queue item", "simple"),
        "event": ("condition", "event"),
        "condition": ("condition", "condition"),
        "joined": ("condition", "event"),
        "joins": ("thread to end", "joined"),
        "pool_0": ("result", "Future"),
        "idle_0": ("work item", "work_queue"),
    }
    assert [one["thread"] for one in locks["waits"] if one["timed"]] == ["timed"]
    joined = next(one["tid"] for one in locks["threads"] if one["name"] == "joined")
    tids = {one["name"]: one["tid"] for one in locks["threads"]}
    joins = {one["thread"]: one["joins_tid"] for one in locks["waits"] if one["joins"]}
    assert joins == {"joins": joined, "pool_0": tids["pool_0"]}
    assert locks["cycles"] == [[tids["pool_0"]]]  # it waits for work of its own pool


def test_two_threads_in_a_circle() -> None:
    with program("stuck_two_locks.py") as pid:
        found = eventually_waiting(pid, 3)
    tids = {one["tid"]: one["name"] for one in found["threads"]}
    assert [{tids[tid] for tid in cycle} for cycle in found["cycles"]] == [{"move-0", "move-1"}]
    ids = {one["id"]: one["holder_name"] for one in found["locks"]}
    wants = {one["thread"]: ids.get(one["lock"]) for one in found["waits"]}
    assert wants == {"move-0": "move-1", "move-1": "move-0", "MainThread": None}
    assert found["python"] == sys.version.split()[0]


def test_a_lock_whose_owner_has_ended() -> None:
    text = (
        "import threading\n"
        "lock, plain = threading.RLock(), threading.Lock()\n"
        "ended = threading.Event()\n"
        "def take(): lock.acquire(); plain.acquire()\n"
        "def wait(): ended.wait(); plain.acquire()\n"
        "threading.Thread(target=wait, daemon=True).start()\n"
        "thread = threading.Thread(target=take); thread.start(); thread.join()\n"
        "ended.set()\n"
        "print('ready', flush=True)\n"
        "lock.acquire()\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 2)
    assert {one["kind"]: (one["locked"], one["holder_alive"]) for one in found["locks"]} == {
        "RLock": (True, False),
        "Lock": (True, None),
    }


def test_a_lock_kept_by_a_task_between_two_awaits() -> None:
    text = (
        "import asyncio, threading\n"
        "lock = threading.Lock()\n"
        "async def keep():\n"
        "    with lock: await asyncio.sleep(100)\n"
        "async def main():\n"
        "    task = asyncio.create_task(keep(), name='keeper')\n"
        "    await asyncio.sleep(0.01)\n"
        "    print('ready', flush=True)\n"
        "    with lock: pass\n"
        "asyncio.run(main())\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 1)
    assert [(one["name"], one["holder_name"]) for one in found["locks"]] == [
        ("lock", "task keeper")
    ]
    assert found["locks"][0]["held_at"]["function"] == "keep"
    assert found["cycles"] == [[pid]]


def test_a_lock_kept_by_a_suspended_generator() -> None:
    text = (
        "import threading, time\n"
        "lock = threading.Lock()\n"
        "def rows():\n"
        "    with lock: yield 1; yield 2\n"
        "left = [rows()]; next(left[0])\n"
        "print('ready', flush=True); lock.acquire()\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 1)
    (one,) = found["locks"]
    assert (one["holder_name"], one["holder_tid"], one["locked"]) == ("suspended rows", None, True)
    assert one["held_at"]["line"] == 4


def test_a_thread_that_imports_what_is_being_imported(tmp_path: Path) -> None:
    (tmp_path / "circular.py").write_text(
        "import threading\n"
        "def work():\n"
        "    from circular import done\n"
        "worker = threading.Thread(target=work, name='worker')\n"
        "worker.start(); print('ready', flush=True); worker.join()\n"
        "done = True\n"
    )
    with running(
        *code(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import circular")
    ) as pid:
        found = eventually_waiting(pid, 2)
    waits = {one["thread"]: (one["for"], one["name"]) for one in found["waits"]}
    assert waits == {
        "worker": ("lock", "import of circular"),
        "MainThread": ("thread to end", "worker"),
    }
    assert [(one["kind"], one["holder_name"]) for one in found["locks"]] == [
        ("ModuleLock", "MainThread")
    ]
    assert len(found["cycles"]) == 1


SHARED = (
    "import multiprocessing, os, signal, sys, time\n"
    "context = multiprocessing.get_context('fork')\n"
    "first, second = context.Lock(), context.Lock()\n"
    "def work(ready):\n"
    "    second.acquire(); ready.set()\n"
    "    if sys.argv[1] == 'dies': os.kill(os.getpid(), signal.SIGKILL)\n"
    "    with first: time.sleep(100)\n"
    "with first:\n"
    "    ready = context.Event()\n"
    "    child = context.Process(target=work, args=(ready,), daemon=True)\n"
    "    child.start(); ready.wait(); time.sleep(0.2)\n"
    "    print('ready', child.pid, flush=True)\n"
    "    with second: pass\n"
)


@pytest.mark.parametrize("what", ["waits", "dies"])
def test_a_lock_shared_with_another_process(what: str) -> None:
    with running(*code(SHARED), what) as pid:
        found = eventually_waiting(pid, 1)
        (child,) = procfs.child_ids(pid)
        os.kill(child, signal.SIGKILL)
    shared = {one["name"]: one for one in found["locks"]}
    assert (shared["first"]["holder_tid"], "elsewhere" in shared["first"]) == (pid, False)
    assert (shared["second"]["holder_tid"], shared["second"]["locked"]) == (None, True)
    if what == "waits":
        elsewhere = shared["second"]["elsewhere"]
        assert (elsewhere["pid"], elsewhere["tid"], elsewhere["thread"]) == (
            child,
            child,
            "MainThread",
        )
        assert elsewhere["at"]["function"] == "work"
        assert shared["second"]["orphaned"] is False
        assert sorted(map(sorted, found["cycles_across"])) == [sorted([[pid, pid], [child, child]])]
    else:
        assert (shared["second"]["elsewhere"], shared["second"]["orphaned"]) == (None, True)
        assert found["cycles_across"] == []


def test_what_processes_share_beside_locks() -> None:
    text = (
        "import multiprocessing, threading, time\n"
        "full, event, gate = multiprocessing.Queue(1), multiprocessing.Event(), "
        "multiprocessing.Semaphore(2)\n"
        "gate.acquire(); gate.acquire(); full.put(1)\n"
        "def start(name, function): threading.Thread(target=function, name=name).start()\n"
        "start('puts', lambda: full.put(2)); start('event', lambda: event.wait())\n"
        "start('gate', lambda: gate.acquire())\n"
        "print('ready', flush=True); time.sleep(100)\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 4)  # one more feeds the queue
    waits = {one["thread"]: (one["for"], one["name"]) for one in found["waits"]}
    assert waits.pop("QueueFeederThread")[0] == "condition"
    assert waits == {
        "puts": ("queue item", "full"),
        "event": ("condition", "event"),
        "gate": ("semaphore", "gate"),
    }
    assert [(one["name"], one["holder_tid"], one.get("orphaned")) for one in found["locks"]] == [
        ("gate", None, None)
    ]
    assert found["cycles"] == []


def test_a_semaphore_whose_holders_all_want_it_again() -> None:
    text = (
        "import threading, time\n"
        "gates = [threading.Semaphore(2), threading.Semaphore(2)]\n"
        "met = [threading.Barrier(2), threading.Barrier(2)]\n"
        "def stuck(n):\n"
        "    with gates[0]:\n"
        "        met[0].wait()\n"
        "        with gates[0]: pass\n"
        "def well(n):\n"
        "    with gates[1]:\n"
        "        met[1].wait()\n"
        "        if n: time.sleep(100)\n"
        "        with gates[1]: pass\n"
        "for n in range(2):\n"
        "    for one in (stuck, well):\n"
        "        threading.Thread(target=one, args=(n,), name=f'{one.__name__}-{n}').start()\n"
        "print('ready', flush=True); time.sleep(100)\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 3)
    names = {one["tid"]: one["name"] for one in found["threads"]}
    (cycle,) = found["cycles"]
    assert {names[tid] for tid in cycle} <= {"stuck-0", "stuck-1"}
    locks = {one["name"]: one for one in found["locks"]}
    assert names[locks["gates[0]"]["holder_tid"]].startswith("stuck")
    assert (locks["gates[1]"]["holder_tid"], locks["gates[1]"]["left"]) == (None, False)


def test_a_lock_as_a_signal_is_no_circle() -> None:
    text = (
        "import threading, time\n"
        "done, twice = threading.Lock(), threading.Lock()\n"
        "def signalled():\n"
        "    done.acquire()\n"
        "    done.acquire()\n"
        "def again():\n"
        "    twice.acquire()\n"
        "    twice.acquire()\n"
        "    twice.release()\n"
        "for one in (signalled, again): threading.Thread(target=one, name=one.__name__).start()\n"
        "print('ready', flush=True)\n"
        "while True: sum(range(100))\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 2)
    held = {one["name"]: (one["holder_name"], one["left"]) for one in found["locks"]}
    assert held == {"done": ("", False), "twice": ("again", False)}
    names = {one["tid"]: one["name"] for one in found["threads"]}
    assert [[names[tid] for tid in cycle] for cycle in found["cycles"]] == [["again"]]


def test_a_lock_that_was_left_locked() -> None:
    text = (
        "import threading\n"
        "lock = threading.Lock()\n"
        "def forgets(): lock.acquire()\n"
        "def waits():\n"
        "    with lock: pass\n"
        "forgets(); threading.Thread(target=waits).start()\n"
        "print('ready', flush=True)\n"
        "while True: sum(range(100))\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 1)
    assert [(one["name"], one["holder_tid"], one["left"]) for one in found["locks"]] == [
        ("lock", None, True)
    ]


def test_results_that_other_threads_have_to_bring() -> None:
    text = (
        "import asyncio, threading, time\n"
        "from concurrent.futures import ThreadPoolExecutor, wait\n"
        "loop = asyncio.new_event_loop()\n"
        "threading.Thread(target=loop.run_forever, name='loop', daemon=True).start()\n"
        "one, two = ThreadPoolExecutor(1, 'one'), ThreadPoolExecutor(2, 'two')\n"
        "async def slow(): await asyncio.sleep(100)\n"
        "def start(name, function):\n"
        "    threading.Thread(target=function, name=name, daemon=True).start()\n"
        "running, queued = one.submit(time.sleep, 100), one.submit(print)\n"
        "start('runs', lambda: running.result()); start('queued', lambda: queued.result())\n"
        "start('many', lambda: wait([queued, running]))\n"
        "start('task', lambda: asyncio.run_coroutine_threadsafe(slow(), loop).result())\n"
        "gate = threading.Barrier(2)\n"
        "def inner(): gate.wait(); two.submit(print).result()\n"
        "for _ in range(2): two.submit(inner)\n"
        "print('ready', flush=True); time.sleep(100)\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 6)
    waits = {one["thread"]: (one["for"], one["joins"]) for one in found["waits"]}
    assert waits == {
        "runs": ("result", "one_0"),
        "queued": ("result", "one_0"),
        "many": ("result", "one_0"),
        "task": ("result", "loop"),
        "two_0": ("result", "two_1"),
        "two_1": ("result", "two_0"),
    }
    names = {one["tid"]: one["name"] for one in found["threads"]}
    assert [{names[tid] for tid in cycle} for cycle in found["cycles"]] == [{"two_0", "two_1"}]


def test_a_convoy_is_no_circle() -> None:
    text = (
        "import threading, time\n"
        "lock = threading.Lock()\n"
        "def work():\n"
        "    while True:\n"
        "        with lock: time.sleep(0.001)\n"
        "for _ in range(4): threading.Thread(target=work, daemon=True).start()\n"
        "print('ready', flush=True); time.sleep(100)\n"
    )
    with running(*code(text)) as pid:
        looks = [locklist.collect(opened(pid)) for _ in range(30)]
    assert [one["cycles"] for one in looks] == [[]] * 30


# Tasks


def is_at_rest(found: dict[str, Any]) -> bool:
    return found["total"] == 26 and {one["state"] for one in found["tasks"]} == {"pending"}


@pytest.fixture(scope="module")
def tasks() -> Iterator[dict[str, Any]]:
    with program("interior_tasks.py") as pid:
        deadline = time.monotonic() + 30
        found = tasklist.collect(opened(pid))
        while not is_at_rest(found) and time.monotonic() < deadline:
            found = tasklist.collect(opened(pid))
        yield found


def test_what_wakes_each_task(tasks: dict[str, Any]) -> None:
    woken = {one["name"]: one["woken_by"] for one in tasks["tasks"] if "Task-" not in one["name"]}
    assert woken == {
        "sleeper": "timer",
        "forgotten": "nobody",
        "remembered": "unknown",
        "reads": "io",
        "receives": "io",
        "in_thread": "thread",
        "limited": "timer",
        "consumes": "nobody",
        "counts": "timer",
        "grouped": "nobody",
        "child": "nobody",
        "shielded": "nobody",
        "takes-1": "nobody",
        "takes-2": "nobody",
        "keeps": "timer",
        "wants": "timer",
        "keeps_managed": "timer",
        "wants_managed": "timer",
        "ring-0": "nobody",
        "ring-1": "nobody",
        "ring-2": "nobody",
        "both-1": "nobody",
        "both-2": "nobody",
        "wait_for": "timer",
    }
    main = next(one for one in tasks["tasks"] if one["name"] == "Task-1")
    assert (main["woken_by"], main["awaits"], main["waits_name"]) == (
        "signal",
        "Event.wait",
        "stop",
    )
    assert (tasks["timers"], tasks["watched_fds"], tasks["loops"]) == (6, 2, 1)


def test_what_each_task_awaits(tasks: dict[str, Any]) -> None:
    named = {one["name"]: one for one in tasks["tasks"]}
    told = ("sleeper", "ring-0", "forgotten", "wants", "reads")
    assert {name: named[name]["awaits"] for name in told} == {
        "reads": "StreamReader.read",
        "sleeper": "sleep",
        "ring-0": "Task ring-1",
        "forgotten": "Future",
        "wants": "Lock.acquire",
    }
    assert named["ring-0"]["awaits_task"] == named["ring-1"]["id"]
    stack = [frame["function"] for frame in named["counts"]["stack"]]
    assert stack == ["sleep", "ticks", "counts"]
    assert named["keeps"]["holds"][0]["id"] == named["wants"]["waits_lock"]
    assert named["keeps_managed"]["holds"][0]["id"] == named["wants_managed"]["waits_lock"]
    assert Counter(one["state"] for one in tasks["tasks"]) == {"pending": tasks["total"]}


def test_circles_of_tasks(tasks: dict[str, Any]) -> None:
    names = {one["id"]: one["name"] for one in tasks["tasks"]}
    circles = [{names[one] for one in cycle} for cycle in tasks["cycles"]]
    assert sorted(circles, key=len) == [{"takes-1", "takes-2"}, {"ring-0", "ring-1", "ring-2"}]


def test_a_thread_that_waits_for_a_loop_that_waits_for_it() -> None:
    text = (
        "import asyncio, threading, time\n"
        "lock = threading.Lock()\n"
        "async def other(): pass\n"
        "def work(loop):\n"
        "    with lock: asyncio.run_coroutine_threadsafe(other(), loop).result()\n"
        "async def main():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    loop.run_in_executor(None, work, loop); time.sleep(0.2)\n"
        "    print('ready', flush=True)\n"
        "    with lock: pass\n"
        "asyncio.run(main())\n"
    )
    with running(*code(text)) as pid:
        found = eventually_waiting(pid, 2)
    names = {one["tid"]: one["name"] for one in found["threads"]}
    assert [{names[tid] for tid in cycle} for cycle in found["cycles"]] == [
        {"MainThread", "asyncio_0"}
    ]


def test_a_semaphore_that_tasks_want_deeper_than_it_lets_in() -> None:
    text = (
        "import asyncio\n"
        "async def node(gate, depth):\n"
        "    async with gate:\n"
        "        if depth: await asyncio.gather(node(gate, depth - 1), node(gate, depth - 1))\n"
        "async def main():\n"
        "    ticking = asyncio.create_task(asyncio.sleep(100), name='sleeps')\n"
        "    asyncio.get_running_loop().call_later(0.2, lambda: print('ready', flush=True))\n"
        "    await node(asyncio.Semaphore(3), 5)\n"
        "asyncio.run(main())\n"
    )
    with running(*code(text)) as pid:
        found = tasklist.collect(opened(pid))
    woken = {one["id"]: one["woken_by"] for one in found["tasks"]}
    assert {woken[one] for cycle in found["cycles"] for one in cycle} == {"nobody"}
    assert [one["name"] for one in found["tasks"] if one["woken_by"] != "nobody"] == ["sleeps"]


def test_a_blocked_loop_shows_what_runs() -> None:
    text = (
        "import asyncio, time\n"
        "def block(): print('ready', flush=True); time.sleep(100)\n"
        "async def inner(): block()\n"
        "async def main():\n"
        "    other = asyncio.create_task(asyncio.sleep(0), name='other')\n"
        "    await inner()\n"
        "asyncio.run(main())\n"
    )
    with running(*code(text)) as pid:
        found = tasklist.collect(opened(pid))
    named = {one["name"]: one for one in found["tasks"]}
    assert {name: one["state"] for name, one in named.items()} == {
        "Task-1": "running",
        "other": "ready",
    }
    assert [one["function"] for one in named["Task-1"]["stack"]] == ["block", "inner", "main"]


def test_a_circle_beside_tasks_that_never_rest() -> None:
    text = (
        "import asyncio\n"
        "async def pair(first, second):\n"
        "    async with first:\n"
        "        await asyncio.sleep(0.01)\n"
        "        async with second: pass\n"
        "async def well(first, second):\n"
        "    while True:\n"
        "        async with first:\n"
        "            async with second: await asyncio.sleep(0)\n"
        "async def main():\n"
        "    a, b, c, d = (asyncio.Lock() for _ in range(4))\n"
        "    tasks = [asyncio.create_task(pair(a, b), name='one'),\n"
        "        asyncio.create_task(pair(b, a), name='two')]\n"
        "    tasks += [asyncio.create_task(well(c, d), name=f'well-{n}') for n in range(4)]\n"
        "    await asyncio.sleep(0.1); print('ready', flush=True)\n"
        "    await asyncio.gather(*tasks)\n"
        "asyncio.run(main())\n"
    )
    with running(*code(text)) as pid:
        looks = [tasklist.collect(opened(pid)) for _ in range(10)]
    for found in looks:
        names = {one["id"]: one["name"] for one in found["tasks"]}
        assert [{names[one] for one in cycle} for cycle in found["cycles"]] == [{"one", "two"}]
        lost = {one["name"] for one in found["tasks"] if one["woken_by"] == "nobody"}
        assert {"one", "two"} <= lost <= {"one", "two", "Task-1"}


def test_twenty_thousand_tasks() -> None:
    text = (
        "import asyncio\n"
        "async def park(event): await event.wait()\n"
        "async def main():\n"
        "    event = asyncio.Event()\n"
        "    tasks = [asyncio.create_task(park(event)) for _ in range(20_000)]\n"
        "    await asyncio.sleep(0.1); print('ready', flush=True)\n"
        "    await asyncio.gather(*tasks)\n"
        "asyncio.run(main())\n"
    )
    with running(*code(text)) as pid:
        began = time.process_time()
        found = tasklist.collect(opened(pid))
        took_s = time.process_time() - began
    assert (found["total"], len(found["tasks"]), found["left_out"]) == (20_001, 200, 19_801)
    assert found["shapes"][0]["count"] == 20_000
    assert [one["function"] for one in found["shapes"][0]["stack"]] == ["Event.wait", "park"]
    assert took_s < 2  # half a second on a machine at rest


# Pools


def test_pools() -> None:
    text = (
        "import sqlalchemy, tempfile, threading, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from psycopg_pool import ConnectionPool\n"
        "from sqlalchemy.pool import QueuePool\n"
        "class Mine(QueuePool): pass\n"
        "engine = sqlalchemy.create_engine('sqlite://', poolclass=Mine, pool_size=2,\n"
        "    max_overflow=1, pool_timeout=600)\n"
        "kept = [engine.connect() for _ in range(3)]\n"
        "waiter = threading.Thread(target=engine.connect, daemon=True); waiter.start()\n"
        "idle = ConnectionPool('host=nowhere', max_size=4, open=False)\n"
        "pool = ThreadPoolExecutor(2); [pool.submit(time.sleep, 100) for _ in range(5)]\n"
        "time.sleep(0.3); print('ready', flush=True); time.sleep(100)\n"
    )
    with running(*code(text)) as pid:
        found = pool.collect(opened(pid))
    shown = {one["kind"]: {k: v for k, v in one.items() if k != "kind"} for one in found["pools"]}
    for one in shown.values():
        del one["id"]
    assert shown.pop("psycopg_pool.ConnectionPool")["size"] == 4
    assert shown == {
        "sqlalchemy.Mine": {
            "size": 2, "checked_out": 3, "overflow": 1, "max_overflow": 1, "waiting": 1,
            "timeout_s": 600.0,
        },
        "concurrent.futures.ThreadPoolExecutor": {
            "size": 2, "checked_out": 2, "overflow": 0, "max_overflow": 0, "waiting": 3,
            "timeout_s": None,
        },
    }  # fmt: skip
    assert found["partial"] is False


# What can be read and what not


def test_values_of_every_kind() -> None:
    text = (
        "import collections, time\n"
        "class Plain: pass\n"
        "class Slots: __slots__ = ('x', 'y')\n"
        "class Odd(Plain, dict): pass\n"
        "plain, grown, slots, odd = Plain(), Plain(), Slots(), Odd()\n"
        "plain.a, plain.b = 1, -(1 << 70)\n"
        "for n in range(60): setattr(grown, f'n{n}', n)\n"
        "slots.y = 'ä€😀'\n"
        "odd.here = 5\n"
        "gone = {n: str(n) for n in range(100)}; [gone.pop(n) for n in range(90)]\n"
        "deep = collections.deque(range(200)); deep.rotate(77)\n"
        "some = {1, 2, 3}; some.discard(2)\n"
        "print('ready', flush=True); time.sleep(100)\n"
    )
    with running(*code(text)) as pid:
        found = opened(pid)
        objects, names = found.objects, found.variables("__main__")
        number = objects.integer
        assert {k: number(v) for k, v in objects.attributes(names["plain"]).items()} == {
            "a": 1,
            "b": -(1 << 70),
        }
        assert number(objects.attribute(names["grown"], "n59")) == 59
        assert objects.attribute(names["slots"], "x") == 0
        assert objects.text(objects.attribute(names["slots"], "y")) == "ä€😀"
        assert number(objects.attribute(names["odd"], "here")) == 5
        gone = {number(key): objects.text(value) for key, value in objects.items(names["gone"])}
        assert gone == {n: str(n) for n in range(90, 100)}
        deep = [number(one) for one in objects.elements(names["deep"])]
        assert deep == [(n - 77) % 200 for n in range(200)]
        assert {number(one) for one in objects.elements(names["some"])} == {1, 3}
        assert objects.type_of(names["odd"]).bases[:3] == (
            "__main__.Odd",
            "__main__.Plain",
            "builtins.dict",
        )
        with pytest.raises(Unreadable):
            objects.type_of(0x1000)


def test_all_objects_of_a_class() -> None:
    text = (
        "import time\n"
        "class Row: pass\n"
        "rows = [Row() for _ in range(5000)]\n"
        "print('ready', flush=True); time.sleep(100)\n"
    )
    with running(*code(text)) as pid:
        found = opened(pid)
        kind = found.variables("__main__")["Row"]
        counted = find(found, {kind}, time.monotonic() + 10)
    assert (len(counted.objects), counted.partial) == (5000, False)


def test_the_layout_is_that_of_this_interpreter() -> None:
    found = opened(os.getpid())
    assert found.version == sys.version.split()[0]
    names = found.modules
    assert {name: names[name] for name in ("sys", "threading")} == {
        "sys": id(sys),
        "threading": id(sys.modules["threading"]),
    }
    entered, leave = threading.Event(), threading.Event()

    def parked(argument: object) -> None:
        entered.set()
        leave.wait()

    thread = threading.Thread(target=parked, args=(names,))
    thread.start()
    entered.wait()
    time.sleep(0.1)
    one = next(one for one in opened(os.getpid()).threads if one.ident == thread.ident)
    leave.set()
    thread.join()
    frame = next(call for call in one.calls if call.code.name == "parked")
    assert one.tid == thread.native_id
    assert frame.code.address == id(parked.__code__)
    assert frame.code.line(frame.offset) == parked.__code__.co_firstlineno + 2
    future, task = found.variables("asyncio")["Future"], found.variables("asyncio")["Task"]
    assert found.objects.type_at(future).basic_bytes == layout.FUTURE_BYTES
    assert found.objects.type_at(task).basic_bytes == layout.TASK_BYTES


@pytest.mark.skipif(not os.path.exists(STATIC), reason="no other build of Python 3.11")
def test_an_interpreter_without_a_library() -> None:
    with running(STATIC, str(PROGRAMS / "stuck_two_locks.py")) as pid:
        assert len(eventually_waiting(pid, 3)["cycles"]) == 1


UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def can_unshare() -> bool:
    known = os.geteuid() == 0 and shutil.which("unshare") is not None
    return known and subprocess.run([*UNSHARE, "true"], check=False).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="makes a pid namespace")
def test_a_process_whose_ids_are_other_ones() -> None:
    with running(*UNSHARE, sys.executable, str(PROGRAMS / "stuck_two_locks.py")) as outer:
        (pid,) = procfs.child_ids(outer)
        found = eventually_waiting(pid, 3)
        tids = procfs.thread_ids(pid)
    assert sorted(one["tid"] for one in found["threads"]) == tids
    assert len(found["cycles"]) == 1
    assert set(found["cycles"][0]) < set(tids)


def test_a_stopped_process() -> None:
    with program("interior_hot.py") as pid:
        os.kill(pid, signal.SIGSTOP)
        while {procfs.stat(f"/proc/{pid}/task/{tid}/stat").state
               for tid in procfs.thread_ids(pid)} != {"T"}:  # fmt: skip
            time.sleep(0.01)
        first = locklist.collect(opened(pid))
        assert locklist.collect(opened(pid)) == first
        assert len(first["threads"]) >= 4
        os.kill(pid, signal.SIGCONT)


def test_a_process_that_never_rests() -> None:
    readers = (locklist.collect, tasklist.collect, pool.collect)
    with program("interior_hot.py") as pid:
        for _ in range(20):
            found = opened(pid, 0.8)
            for reader in readers:
                try:
                    assert isinstance(reader(found), dict)
                except (Skipped, Unreadable, OutOfTime):
                    continue  # ordinary answers of a process that changes
            find(found, {1}, time.monotonic() + 0.1)
        assert locklist.collect(opened(pid))["cycles"] == []


@pytest.mark.parametrize("name", ["interior_tasks.py", "interior_locks.py"])
def test_memory_that_is_torn_anywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a few words of every block say, the answer comes, in time and without an error."""
    chance = random.Random(name)
    whole = Memory.fetch

    def torn(memory: Memory, address: int, size: int) -> bytes:
        found = bytearray(whole(memory, address, size))
        for _ in range(25 if len(found) > 64 else 0):
            place = chance.randrange(len(found) // 8) * 8
            other = chance.randrange(len(found) // 8) * 8
            odd = chance.choice((0, 1, 255, 2**31, 2**63, 2**64 - 1, address + other))
            pair = found[other : other + 8], odd.to_bytes(8, "little")
            found[place : place + 8] = pair[chance.random() < 0.5]
        return bytes(found)

    with program(name) as pid:
        for _ in range(15):
            found = opened(pid, 1.0)
            found.memory.forget()
            monkeypatch.setattr(Memory, "fetch", torn)
            for reader in (locklist.collect, tasklist.collect, pool.collect):
                began = time.monotonic()
                try:
                    assert isinstance(reader(found), dict)
                except (Skipped, Unreadable, OutOfTime):
                    continue
                finally:
                    assert time.monotonic() - began < 5
            monkeypatch.undo()


def test_reasons_for_reading_nothing() -> None:
    shell = running("/bin/sh", "-c", "echo ready; exec sleep 100")
    with shell as pid, pytest.raises(Skipped, match="no Python interpreter is mapped into it"):
        opened(pid)
    with pytest.raises(Skipped, match="no memory of its own"):
        opened(2**22)
    with running(*code("import time; print('ready', flush=True); time.sleep(100)")) as pid:
        found = opened(pid)
        with pytest.raises(Skipped, match="asyncio is not loaded"):
            tasklist.collect(found)
        with pytest.raises(Skipped, match="uses no pools"):
            pool.collect(found)


def other_pythons() -> list[str]:
    names = ("python3.9", "python3.10", "python3.12", "python3.13")
    # Where several are installed side by side, they are beside the one that runs this.
    homes = [str(one) for one in Path(sys.base_prefix).parent.glob("3.*/bin")]
    found = [shutil.which(name, path=":".join([os.defpath, *homes])) for name in names]
    return [one for one in found if one]


@pytest.mark.parametrize("python", other_pythons() or [""])
def test_another_version_is_named(python: str) -> None:
    if not python:
        pytest.skip("no other version of Python here")
    text = "import sys, time; print('ready', *sys.version_info[:2], flush=True); time.sleep(100)"
    with running(python, "-c", text) as pid, pytest.raises(Skipped, match=r"3\.11 only; this is"):
        opened(pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up being root for a moment")
def test_a_process_of_another_user() -> None:
    with program("stuck_sleep.py") as pid:
        os.seteuid(65534)
        try:
            with pytest.raises(Skipped, match="needs CAP_SYS_PTRACE"):
                opened(pid)
        finally:
            os.seteuid(0)


def test_the_memory_of_a_process() -> None:
    memory = Memory(os.getpid(), time.monotonic() + 10)
    kept = b"some bytes that are kept" * 10_000
    assert memory.read(id(kept) + layout.BYTES_START, len(kept)) == kept
    for address in (0, 0xFFF, 1 << 47, -8):
        with pytest.raises(Unreadable):
            memory.read(address, 8)
    memory.deadline_mono = 0.0
    with pytest.raises(OutOfTime):
        memory.read(id(sys), 8)
    memory.close()


def test_the_sections_of_a_capture() -> None:
    inside = Interior()
    with program("interior_tasks.py") as pid, open_patient(pid) as patient:
        assert inside.thread_locks(patient)["cycles"] == []
        assert len(inside.tasks(patient)["cycles"]) == 2
        assert inside.pools(patient)["pools"][0]["kind"] == "concurrent.futures.ThreadPoolExecutor"
