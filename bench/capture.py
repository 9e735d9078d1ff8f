"""How long evidence of a stuck process takes, and what it costs one that works on."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import node
from bench.figure import Figure, at_most, quantile
from bench.place import Place

#: Stuck in ways that cost the autopsy different things: threads, ptrace, sockets, memory, tasks.
_PROGRAMS = {
    "asleep": "time.sleep(1e6)",
    "locks": """
a, b, both = threading.Lock(), threading.Lock(), threading.Barrier(3)
def take(one, other):
    with one:
        both.wait()
        with other: pass
takers = [threading.Thread(target=take, args=pair) for pair in ((a, b), (b, a))]
for taker in takers: taker.start()
both.wait()
takers[0].join()""",
    "busy": "count = 0\nwhile True: count = (count + 1) % 1009",
    "pattern": "import re; re.match('(a+)+$', 'a' * 64 + 'b')",
    "socket": "ours, theirs = socket.socketpair(); ours.recv(1)",
    "asyncio": """
async def wait(): await asyncio.Event().wait()
async def main(): await asyncio.gather(*(wait() for _ in range(500)))
asyncio.run(main())""",
    "memory": "kept = [str(number) for number in range(2_000_000)]; time.sleep(1e6)",
    "threads": """
threading.stack_size(131072)
gate = threading.Event()
for _ in range(100): threading.Thread(target=gate.wait, daemon=True).start()
gate.wait()""",
}
_IMPORTS = "import asyncio, socket, threading, time\nprint('ready', flush=True)\n"
_THREADS = _PROGRAMS["threads"].replace("range(100)", "range(1000)")
#: Counts what it has done into the file, for others to read.
_COUNTER = """
import sys, mmap
with open(sys.argv[1], 'r+b') as file: shared = mmap.mmap(file.fileno(), 8)
print('ready', flush=True)
count = 0
while True:
    count += 1
    if not count % 1000: shared[:8] = count.to_bytes(8, 'little')
"""
#: What a person waits for on demand, and what a kill may wait for.
BUDGET_MS = 2000
BETWEEN_S = 0.3


def measure(place: Place, scale: float) -> list[Figure]:
    """From the start of the command to its end, as a person or a node waits for it."""
    rounds = max(1, int(8 * scale))
    taken: list[float] = []
    for text in _PROGRAMS.values():
        with _stuck(_IMPORTS + text) as pid:
            node.wait_until(lambda one=pid: _has_begun(one))  # type: ignore[misc]
            taken += [_capture_ms(pid) for _ in range(rounds)]
    with _stuck(_IMPORTS + _THREADS) as pid:
        node.wait_until(lambda: len(os.listdir(f"/proc/{pid}/task")) > 1000)
        many = statistics.median(_capture_ms(pid) for _ in range(3))
    return [
        at_most("evidence of a stuck process, p50", statistics.median(taken), "ms", BUDGET_MS / 2),
        at_most("evidence of a stuck process, p95", quantile(taken, 0.95), "ms", BUDGET_MS),
        at_most("evidence of a stuck process, the longest", max(taken), "ms", BUDGET_MS * 2),
        at_most("evidence of 1,000 threads", many, "ms", BUDGET_MS),
        at_most("a busy process between examinations", _loss(place.folder, scale), "% slower", 5),
    ]


def _loss(folder: Path, scale: float) -> float:
    """Return how much less it does per CPU second between examinations than it did before them."""
    place = folder / "count"
    place.write_bytes(bytes(8))
    examinations = max(10, int(100 * scale))
    with _stuck(_COUNTER, str(place)) as pid:
        node.wait_until(lambda: place.read_bytes() != bytes(8))
        alone = [_rate(pid, place) for _ in range(10)]
        between = []
        for _ in range(examinations):
            _capture_ms(pid)
            between.append(_rate(pid, place))
        alone += [_rate(pid, place) for _ in range(10)]
    return (1 - statistics.median(between) / statistics.median(alone)) * 100


def _rate(pid: int, place: Path) -> float:
    """Return its steps per CPU second. Raises: RuntimeError when it was left stopped."""
    cpu_s, count = node.exact_cpu_s(pid), int.from_bytes(place.read_bytes(), "little")
    time.sleep(BETWEEN_S)
    used_s = node.exact_cpu_s(pid) - cpu_s
    if used_s < BETWEEN_S / 20:
        raise RuntimeError(f"process {pid} does not run any more")
    return (int.from_bytes(place.read_bytes(), "little") - count) / used_s


@contextmanager
def _stuck(text: str, *words: str) -> Iterator[int]:
    command = [sys.executable, "-c", text, *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        if process.stdout is not None:
            process.stdout.readline()
        yield process.pid
        process.kill()


def _has_begun(pid: int) -> bool:
    """Return whether it has run for a while or sleeps: before, it only gets ready."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    state = stat[stat.rindex(")") + 2]
    return state == "S" or node.exact_cpu_s(pid) > 1


def _capture_ms(pid: int) -> float:
    command = [sys.executable, "-m", "autopsy", str(pid), "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=True, cwd=node.ROOT)
    waited_ms = (time.perf_counter() - began) * 1000
    if not json.loads(done.stdout)["diagnosis"]:
        raise RuntimeError(f"no diagnosis of process {pid}")
    return waited_ms
