"""The Python heap of real processes, counted from outside."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import eventually
from ward import patient

from autopsy import clock
from autopsy.collect import heap as section
from autopsy.collect import memory, procfs
from autopsy.collect.patient import open_patient
from autopsy.cpython import heap
from autopsy.cpython.interpreter import open_interpreter
from autopsy.cpython.owner import Owners
from autopsy.section import Payload, Skipped

MIB = 1 << 20
#: Words that look like an object and are none: elements of an array of pointers, for one.
FEW = 5

ZOO = """
    import array, collections, sys
    class Row:
        __slots__ = ("number",)
        def __init__(self, number):
            self.number = number
    class Plain:
        def __init__(self, number):
            self.number = number
    rows = [Row(i) for i in range(30_000)]
    plain = [Plain(i) for i in range(20_000)]
    half = [complex(i, 1) for i in range(40_000)]
    half = half[::2]
    texts = [str(i) * 500 for i in range(1_000)]
    blobs = [bytes([i % 256]) * 5_000 for i in range(2_000)]
    arrays = [bytearray(MIB) for _ in range(10)]
    doubles = array.array("d", [0.0]) * 500_000
    table = {float(i): None for i in range(50_000)}
    unique = set(range(1_000_000, 1_060_000))
    line = collections.deque(range(64_000))
    pair = tuple(range(40_000))
    say_ready()
    sys.stdin.read()
""".replace("MIB", str(MIB))


def counted(pid: int, over_bytes: int = 0) -> Payload:
    with open_patient(pid) as one:
        return section.collector(over_bytes)(one)


def by_type(payload: Payload) -> dict[str, tuple[int, int]]:
    return {one["type"]: (one["count"], one["bytes"]) for one in payload["types"]}


def whole(pid: int) -> Payload:
    """Count without a limit of time: the machine may be busy."""
    count = heap.Count(open_interpreter(pid, clock.mono() + 30))
    count.run(clock.mono() + 30)
    return count.payload()


@pytest.fixture(scope="module")
def zoo() -> Any:
    with patient(ZOO) as one:
        yield one.pid


def test_types_are_counted_exactly_with_what_they_keep(zoo: int) -> None:
    payload = whole(zoo)
    assert (payload["partial"], payload["share"], payload["objects"]) == (
        False,
        1.0,
        payload["seen"],
    )
    found = by_type(payload)
    # With the two words of the collector; of an instance with attributes three words more.
    for name, count, each in (("__main__.Row", 30_000, 48), ("__main__.Plain", 20_000, 64)):
        assert count <= found[name][0] <= count + FEW
        assert count * each <= found[name][1] <= count * each + FEW * 512
    assert 10 <= found["bytearray"][0] <= 10 + FEW
    assert 10 * (MIB + 1 + 64) <= found["bytearray"][1] <= 10 * (MIB + 1 + 64) + FEW * 512
    assert 1 <= found["array.array"][0] <= 1 + FEW
    assert 4_000_000 <= found["array.array"][1] < 4_001_000
    count, size = found["bytes"]
    assert 2_000 <= count < 10_000
    assert 2_000 * 5_033 <= size < 2_000 * 5_033 + 2 * MIB
    long_texts = sum(len(str(i)) * 500 for i in range(1_000))
    assert long_texts < found["str"][1] < long_texts + 3 * MIB
    # Tables: 2/3 full at most, so this many slots of an index and of entries.
    assert 50_000 * 24 < found["dict"][1] < 50_000 * 24 * 4
    assert found["set"][1] >= 131_072 * 16
    assert found["collections.deque"][1] >= 64_000 * 8
    assert found["tuple"][1] > 40_000 * 8
    buffers = {one["type"]: one["bytes"] for one in payload["buffers"]}
    assert buffers["bytearray"] == found["bytearray"][1]
    assert set(buffers) >= {"bytes", "str", "bytearray", "array.array"}


def test_freed_objects_are_not_counted(zoo: int) -> None:
    count, size = by_type(whole(zoo))["complex"]
    assert 20_000 <= count < 20_010
    assert size == count * 32


def test_what_python_takes_is_nearly_all_of_its_memory(zoo: int) -> None:
    payload = whole(zoo)
    with open_patient(zoo) as one:
        anonymous = memory.collect(one)["anonymous_bytes"]
    assert 0.85 * anonymous < payload["python_bytes"] < anonymous
    assert payload["small_bytes"] < payload["python_bytes"]
    assert payload["unused_bytes"] > 0


def test_a_part_stands_for_the_whole(zoo: int) -> None:
    count = heap.Count(open_interpreter(zoo, clock.mono() + 30))
    count.run(clock.mono() + 30, most_pieces=0.4)
    payload = count.payload()
    assert payload["partial"]
    assert payload["share"] == pytest.approx(0.4, abs=0.02)
    assert payload["seen"] < 0.8 * payload["objects"]
    found = by_type(payload)
    assert found["__main__.Row"][0] == pytest.approx(30_000, rel=0.5)
    assert found["bytes"][1] == pytest.approx(10 * MIB, rel=0.5)


def test_one_giant_is_neither_missed_nor_multiplied_in_a_part() -> None:
    source = """
        import sys
        class Store:
            pass
        STORE = Store()
        STORE.index = [None] * 5_000_000
        BLOB = bytes(1) * 50_000_000
        several = [bytes(1) * 100_000 for _ in range(500)]
        say_ready()
        sys.stdin.read()
    """
    with patient(source) as one:
        interpreter = open_interpreter(one.pid, clock.mono() + 30)
        count = heap.Count(interpreter)
        count.run(clock.mono() + 30, most_pieces=0.1)
        owners = Owners(interpreter, set(count.containers), count.giant, clock.mono() + 30)
        owners.search()
        payload = count.payload()
    assert payload["share"] < 0.2
    found = by_type(payload)
    assert 40_000_000 <= found["list"][1] < 45_000_000
    assert 70_000_000 < found["bytes"][1] < 150_000_000
    named = [each for each in owners.found.values() if each["length"] == 5_000_000]
    assert named == [{"name": "__main__.STORE.index", "type": "list", "length": 5_000_000}]


@pytest.mark.parametrize("state", ["stopped", "holding the GIL"])
def test_a_process_that_cannot_answer_is_read_all_the_same(state: str) -> None:
    source = """
        import ctypes
        class Row:
            pass
        kept = [Row() for _ in range(30_000)]
        say_ready()
        ctypes.PyDLL(None).pause()
    """
    with patient(source) as one:
        eventually(
            lambda: procfs.current_syscall(f"/proc/{one.pid}/syscall")[0] == "pause", 10, "in C"
        )
        if state == "stopped":
            one.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, one.pid, os.WSTOPPED | os.WNOWAIT)
        payload = whole(one.pid)
    assert by_type(payload)["__main__.Row"][0] == pytest.approx(30_000, abs=FEW)


NAMED = """
    import collections, functools, sys, types
    GLOBAL = {i: str(i) for i in range(12_000)}
    SECRETS = {"a b": list(range(3_000)), "fine": list(range(4_000))}
    class Registry:
        seen = set(range(11_000))
        def __init__(self):
            self.rows = [0] * 10_000
            self.deep = {"inner": collections.deque(range(9_000))}
    class Slotted:
        __slots__ = ("items",)
        def __init__(self):
            self.items = [0] * 70_000
    REGISTRY, SLOTTED = Registry(), Slotted()
    @functools.lru_cache(maxsize=None)
    def cached(number):
        return number
    for number in range(80_000):
        cached(number)
    def defaulted(kept=[0] * 20_000):
        return kept
    def closed():
        history = [0] * 90_000
        return lambda: history
    CLOSED = closed()
    HIDDEN = types.SimpleNamespace(deep=[[[[[0] * 60_000]]]])
    def work():
        local = collections.OrderedDict((i, i) for i in range(13_000))
        say_ready()
        sys.stdin.read()
    work()
"""


def test_large_containers_are_named_by_who_holds_them() -> None:
    with patient(NAMED) as one:
        found = counted(one.pid)["containers"]
    assert [(each["length"], each["type"], each["name"]) for each in found] == [
        (90_000, "list", "__main__.CLOSED, its captured history"),
        (80_000, "dict", "__main__.cached, inside of its functools._lru_cache_wrapper"),
        (70_000, "list", "__main__.SLOTTED, inside of its __main__.Slotted"),
        (60_000, "list", "(unnamed)"),
        (20_000, "list", "__main__.defaulted, a default of its arguments"),
        (13_000, "collections.OrderedDict", "local in work (<string>:32)"),
        (12_000, "dict", "__main__.GLOBAL"),
        (11_000, "set", "__main__.Registry.seen"),
        (10_000, "list", "__main__.REGISTRY.rows"),
        (9_000, "collections.deque", "__main__.REGISTRY.deep['inner']"),
    ]


def test_a_librarys_container_is_named_and_the_interpreters_own_is_not_one() -> None:
    source = """
        import linecache, sys
        linecache.cache.update((i, (0, None, [], "")) for i in range(60_000))
        kept = [sys.intern(f"name{i}") for i in range(55_000)]
        del kept
        names = [sys.intern(f"other{i}") for i in range(55_000)]
        say_ready()
        sys.stdin.read()
    """
    with patient(source) as one:
        found = counted(one.pid)["containers"]
    assert [(each["name"], each["length"]) for each in found] == [
        ("linecache.cache", 60_000),
        ("__main__.names", 55_000),
    ]


def test_native_memory_is_not_taken_for_python_objects() -> None:
    source = """
        import ctypes, sys
        allocate = ctypes.CDLL(None).malloc
        allocate.restype = ctypes.c_void_p
        for _ in range(1_000):
            ctypes.memset(ctypes.c_void_p(allocate(90_000)), 1, 90_000)
        say_ready()
        sys.stdin.read()
    """
    with patient(source) as one:
        payload = whole(one.pid)
        with open_patient(one.pid) as examined:
            anonymous = memory.collect(examined)["anonymous_bytes"]
    assert anonymous > 85 * MIB
    assert payload["python_bytes"] < 12 * MIB


def test_objects_of_the_development_mode_are_counted_too() -> None:
    source = """
        import sys
        class Row:
            pass
        rows = [Row() for _ in range(30_000)]
        numbers = [complex(i, 1) for i in range(20_000)]
        say_ready()
        sys.stdin.read()
    """
    with patient(source, prefix=("env", "PYTHONDEVMODE=1")) as one:
        found = by_type(whole(one.pid))
    assert found["__main__.Row"][0] == pytest.approx(30_000, abs=FEW)
    assert found["complex"][0] == pytest.approx(20_000, abs=FEW + 10)


def test_a_small_process_is_not_counted() -> None:
    with patient("import sys\nsay_ready()\nsys.stdin.read()") as one:
        with pytest.raises(Skipped, match=r"^it uses \d+ MiB; the heap is counted from 64 MiB on$"):
            counted(one.pid, over_bytes=64 * MIB)
        assert counted(one.pid)["objects"] > 10_000


def test_another_allocator_and_no_python_are_said_so() -> None:
    source = "import sys\nsay_ready()\nsys.stdin.read()"
    other_allocator = patient(source, prefix=("env", "PYTHONMALLOC=malloc"))
    with other_allocator as one, pytest.raises(Skipped, match="PYTHONMALLOC"):
        counted(one.pid)
    cat = Path("/bin/cat")
    with subprocess.Popen([cat], stdin=subprocess.PIPE) as other:
        try:
            with pytest.raises(Skipped, match="no Python interpreter"):
                counted(other.pid)
        finally:
            other.kill()
