"""Nobody reads the log: whoever writes it goes on, and what was put aside comes later, in order."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

import pytest
from harness import NodeUnderTest, Start, eventually

from supervisor.model.states import State
from supervisor.telemetry.outlet import Outlet

PIPE_BYTES = 4096


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """A small pipe: its end to read from, and a stream."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with open(writer, "w") as stream:
        yield reader, stream
    os.close(reader)


def read_until(reader: int, last: str) -> list[str]:
    """Read lines until this one has come."""
    text = b""
    while not text.endswith(f"{last}\n".encode()):
        text += os.read(reader, 65536)
    return text.decode().splitlines()


def test_a_pipe_that_is_read_gets_each_line_at_once(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    outlet = Outlet(stream)
    for number in range(1000):
        outlet.write(f"line {number}\n")
        assert os.read(reader, PIPE_BYTES) == f"line {number}\n".encode()
    assert outlet.close(0)
    assert not outlet.isatty()


def test_a_pipe_that_is_not_read_keeps_nobody(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    outlet = Outlet(stream)
    lines = [f"{number} {'x' * (number % 300)}" for number in range(3000)]
    lines[1500] = "y" * 100_000  # more than the pipe holds
    began = time.monotonic()
    for line in lines:
        outlet.write(f"{line}\n")
    assert time.monotonic() - began < 10  # for ever if it waited
    assert read_until(reader, lines[-1]) == lines
    assert outlet.close(2)
    outlet.write("and on\n")
    assert os.read(reader, 100) == b"and on\n"


def test_beyond_a_limit_lines_are_dropped_and_counted(
    pipe: tuple[int, TextIO], caplog: pytest.LogCaptureFixture
) -> None:
    reader, stream = pipe
    outlet = Outlet(stream, aside_bytes=10_000)
    for number in range(300):
        outlet.write(f"{number:99}\n")
    os.set_blocking(reader, False)
    text = b""
    with caplog.at_level("WARNING", logger="supervisor"):
        while not caplog.records:
            with suppress(BlockingIOError):
                text += os.read(reader, PIPE_BYTES)
    with suppress(BlockingIOError):
        text += os.read(reader, PIPE_BYTES)
    kept = [int(line) for line in text.splitlines()]
    assert kept == list(range(len(kept)))
    assert 100 <= len(kept) <= 141  # 100 aside, and some in the pipe
    (told,) = [record.fields for record in caplog.records]  # type: ignore[attr-defined]
    assert told == {"lines": 300 - len(kept)}


def test_nobody_at_the_other_end(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    outlet = Outlet(stream)
    outlet.write("x" * (PIPE_BYTES + 1) + "\n")
    assert not outlet.close(0.1)  # and it leads nowhere from here on
    outlet.write("last words\n")
    os.read(reader, PIPE_BYTES)
    os.read(reader, PIPE_BYTES)
    assert outlet.close(2)


def test_node_whose_log_nobody_reads(start_node: Start) -> None:
    """Tasks, limits and answers as ever; read at last, the log is complete."""
    node = start_node(run=False)
    node.log = node.root / "log"
    os.mkfifo(node.log)
    reader = os.open(node.log, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        node.start(wait=False)
        eventually(lambda: node.get("/readyz")[0] == 200, 20)
        failing = [node.submit("childless", path="/nowhere") for _ in range(60)]
        stuck = node.submit("nap")
        for handle in failing:
            assert handle.wait(15).state is State.FAILED
        assert stuck.wait(10).state is State.TIMEOUT
        assert node.get("/healthz")[0] == node.get("/readyz")[0] == 200
        assert node.metrics()["supervisor_loop_errors_total", ()] == 0
        died = _died(node, reader, 61)
        assert {line["task_id"] for line in died} == {h.task_id for h in (*failing, stuck)}
        node.run("ok")
        for _ in range(60):
            node.submit("childless", path="/nowhere")
        node.run("ok")
        assert node.stop() == 0, "the end does not wait for a reader for long"
    finally:
        os.close(reader)


def _died(node: NodeUnderTest, reader: int, count: int) -> list[dict[str, str]]:
    text = b""

    def told() -> list[dict[str, str]]:
        nonlocal text
        with suppress(BlockingIOError):
            text += os.read(reader, 2**20)
        whole = text[: text.rfind(b"\n") + 1].decode()
        lines = [json.loads(line) for line in whole.splitlines()]
        found = [line for line in lines if line["event"] == "task.died"]
        return found if len(found) == count else []

    return eventually(told, 10, f"{count} deaths in the log")
