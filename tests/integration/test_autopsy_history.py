"""What a process noted of itself, against kills, forks, and where nothing else can be read."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autopsy.bundle import Bundle, read_bundle
from autopsy.capture import Order, capture
from autopsy.memfd import Kept
from autopsy.sampler import Sampler
from autopsy.section import Status
from autopsy.stackring import create_stack_ring, fillings

PROGRAMS = Path(__file__).parents[1] / "programs"
KILLS = 20
WITHOUT_PTRACE = ("setpriv", "--inh-caps", "-sys_ptrace", "--bounding-set", "-sys_ptrace")


def number_of(body: bytes) -> int:
    """Return the number of an entry that is whole by the writer's rule."""
    number = int(body.split(b" ")[0])
    assert body == b"%d " % number + b"abcdefghij"[number % 10 :] * (number % 199)
    return number


def runs_of(fd: int) -> list[list[int]]:
    """Read the ring; every entry must be whole, and follow the one before it."""
    runs = [[number_of(body) for body in filling] for filling in fillings(fd)]
    assert all(run == list(range(run[0], run[0] + len(run))) for run in runs if run)
    return runs


@pytest.fixture
def fd() -> Iterator[int]:
    made = create_stack_ring(300)
    yield made
    os.close(made)


@contextmanager
def started(program: str, fd: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(PROGRAMS / program), str(fd), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[fd]) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def test_whenever_the_writer_is_killed_what_it_wrote_before_is_whole(fd: int) -> None:
    chance = random.Random(7)
    read = 0
    for _ in range(KILLS):
        with started("stuck_stack_writer.py", fd):
            time.sleep(chance.uniform(0, 0.05))
        # The ring was full long ago: the older half is, the newer one ends where the kill came.
        runs = runs_of(fd)
        read += sum(map(len, runs))
    assert [len(run) > 0 for run in runs] == [True, True]
    assert read > 1000 * KILLS / 2


def test_a_reader_beside_the_writer_gets_whole_entries_only(fd: int) -> None:
    with started("stuck_stack_writer.py", fd):
        end = time.monotonic() + 1
        reads = 0
        while time.monotonic() < end:
            runs_of(fd)
            reads += 1
    assert reads > 3


def test_a_forked_child_does_not_write_into_its_parents_ring(fd: int) -> None:
    sampler = Sampler(fd)
    sampler.turn(1)
    before = fillings(fd)
    pid = os.fork()
    if pid == 0:
        sampler._due = 0.0
        sampler.turn(2)
        os._exit(0)
    os.waitpid(pid, 0)
    assert fillings(fd) == before
    sampler._due = 0.0
    sampler.turn(3)
    assert fillings(fd) != before


def kept_by_us(fd: int) -> Kept:
    return Kept(stack_ring=f"/proc/{os.getpid()}/fd/{fd}")


def payloads(captured: Any) -> dict[str, Any]:
    return {section.name: section.payload for section in captured.sections}


def own_functions(ring: dict[str, Any]) -> set[str]:
    return {frame["function"] for stack in ring["stacks"] for frame in stack}


def test_the_ring_is_found_in_the_process_itself(fd: int) -> None:
    with started("stuck_sampled.py", fd, "thread") as process:
        seen = payloads(capture(Order(process.pid, budget_s=5)))
    assert "wait_for_ever" in own_functions(seen["ring"])
    assert (seen["ring"]["threads"][0]["tid"], seen["growth"]["source"]) == (process.pid, "ring")
    assert "supervisor-puls" not in {one["name"] for one in seen["ring"]["threads"]}
    assert seen["stacks"]["samples"][0]["method"].startswith("py-spy")


def test_it_outlives_the_process_where_it_is_kept(fd: int) -> None:
    with started("stuck_sampled.py", fd, "thread") as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        unreaped = capture(Order(process.pid, budget_s=5, kept=kept_by_us(fd)))
    left = capture(Order(process.pid, kept=kept_by_us(fd), facts_only=True))
    assert [section.name for section in left.sections] == ["facts", "ring", "growth"]
    for seen in (payloads(unreaped), payloads(left)):
        assert "wait_for_ever" in own_functions(seen["ring"])
    assert payloads(left)["growth"]["baseline"]["rss_bytes"] > 1 << 20


def test_a_ring_that_is_none_is_told_and_costs_no_other_section() -> None:
    other = os.memfd_create("other")
    left = capture(Order(1, kept=kept_by_us(other), facts_only=True))
    os.close(other)
    assert [(one.name, one.status) for one in left.sections[1:]] == [
        ("ring", Status.ERROR), ("growth", Status.ERROR),
    ]  # fmt: skip


def captured_without_ptrace(pid: int, fd: int, out: Path) -> Bundle:
    command = [*WITHOUT_PTRACE, sys.executable, "-m", "autopsy", "capture", str(pid)]
    subprocess.run(
        [*command, "--out", str(out), "--stack-ring", f"/dev/fd/{fd}"],
        pass_fds=[fd],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return read_bundle(out)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which(WITHOUT_PTRACE[0]) is None,
    reason="only root can give up the permission and still start the program with it",
)
class TestWithoutPermission:
    def test_its_own_samples_stand_in_for_the_stacks(self, fd: int, tmp_path: Path) -> None:
        with started("stuck_sampled.py", fd, "thread") as process:
            bundle = captured_without_ptrace(process.pid, fd, tmp_path / "a.zip")
        refused, *samples = bundle.sections["stacks"]["samples"]
        assert (refused["method"], refused["threads"]) == ("none", [])
        assert {sample["method"] for sample in samples} == {"ring"}
        for sample in samples:
            told = "SYS_PTRACE; the process noted these stacks of itself"
            assert sample["reason"].endswith(told)
            main = next(one for one in sample["threads"] if one["tid"] == process.pid)
            stack = bundle.sections["stacks"]["stacks"][main["stack"]]
            assert "wait_for_ever" in [frame["function"] for frame in stack]

    def test_its_own_look_at_its_tasks_stands_in_for_theirs(self, fd: int, tmp_path: Path) -> None:
        with started("stuck_sampled.py", fd, "tasks") as process:
            bundle = captured_without_ptrace(process.pid, fd, tmp_path / "a.zip")
        tasks = bundle.sections["asyncio"]
        assert (tasks["source"], tasks["total"], tasks["tasks"]) == ("ring", 31, [])
        assert "SYS_PTRACE" in tasks["instead_of"]
        most = tasks["shapes"][0]
        assert most["count"] == 30
        names = [frame["function"].rpartition(".")[2] for frame in most["stack"]]
        assert names == ["wait", "waits_for"]
