"""`supervisor run` before a person: what it says on a terminal, and to whom names a file."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from harness import COMMAND, ENDINGS, REPOSITORY, SHORT, eventually

from supervisor.cli.group import build
from supervisor.cli.run import stop_words
from supervisor.client import Client
from supervisor.model.spec import parse_spec
from supervisor.model.states import State
from supervisor.settings import Settings


def test_the_first_interrupt_says_what_it_waits_for(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    client = Client(Settings(store=url))
    master, slave = pty.openpty()
    env = {**os.environ, **SHORT, "SUPERVISOR_STORE": url, "TMPDIR": str(tmp_path), "NO_COLOR": "1"}
    node = subprocess.Popen(
        [*COMMAND, "run", ENDINGS],
        stdin=subprocess.DEVNULL, stderr=slave, env=env, cwd=REPOSITORY,
    )  # fmt: skip
    os.close(slave)
    try:
        [handle] = client.submit([parse_spec({"type": "parent", "params": {"s": 30}})])
        eventually(lambda: handle.view().started_at, 20, "the task runs")
        node.send_signal(signal.SIGINT)
        said = _read_until(master, b"a third ends it")
        assert stop_words(1, 6) in said
        node.send_signal(signal.SIGINT)
        assert node.wait(15) == 0
        assert handle.state() is State.PENDING
    finally:
        node.kill()
        node.wait()
        os.close(master)
        client.close()


def _read_until(fd: int, mark: bytes) -> str:
    seen = b""
    while mark not in seen:
        seen += os.read(fd, 65536)  # raises once the node is gone
    return seen.decode()


def test_the_words_of_a_stop() -> None:
    assert stop_words(1, 60) == (
        "1 task runs; waiting up to 60 s for it; "
        "Ctrl-C again asks it for a checkpoint, a third ends it"
    )
    assert stop_words(3, 2.5) == (
        "3 tasks run; waiting up to 2.5 s for them; "
        "Ctrl-C again asks them for a checkpoint, a third ends them"
    )
    assert stop_words(0, 60) == "no task runs: stopping"


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["run", "tasks.py"], "tasks:app"),
        (["run", "./shop/tasks.py:other"], "shop.tasks:other"),
        (["check", "shop/tasks"], "shop.tasks:app"),
        (["submit", "export", "--app", "tasks.py"], "tasks:app"),
    ],
)
def test_a_file_is_no_module(args: list[str], name: str, tmp_path: Path) -> None:
    env = {"SUPERVISOR_STORE": f"sqlite:///{tmp_path}/tasks.db"}
    result = CliRunner(env=env).invoke(build(), args)
    assert result.exit_code == 2
    assert f"remedy: Name the module, not the file: `{name}`" in result.stderr
