"""The README's commands and the examples, run as a reader would run them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from doc_text import README, REPOSITORY, Block, blocks

BIN = Path(sys.executable).parent
WAIT_S = 60


@dataclass(slots=True)
class Desk:
    """A directory with the example, a store of its own, and perhaps a node that runs."""

    place: Path
    env: dict[str, str]
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, script: str) -> str:
        """Run a script as a person's shell would; every command must succeed."""
        done = subprocess.run(
            ["bash", "-c", f"set -eu\n{script}"],
            cwd=self.place, env=self.env, capture_output=True, text=True, timeout=WAIT_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, command: str) -> None:
        """Start a command that goes on, and wait until its node takes tasks."""
        log = self.place / f"node{len(self.nodes)}.log"
        with log.open("wb") as out:
            self.nodes.append(
                subprocess.Popen(command.split(), cwd=self.place, env=self.env, stderr=out)
            )
        deadline = time.monotonic() + WAIT_S
        while "worker.spawned" not in log.read_text():
            assert self.nodes[-1].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def stop(self) -> list[int]:
        """Stop every node as Ctrl-C does; return their exit codes."""
        for node in self.nodes:
            node.send_signal(signal.SIGINT)
        return [node.wait(WAIT_S) for node in self.nodes]


@pytest.fixture
def desk() -> Iterator[Desk]:
    place = Path(tempfile.mkdtemp(prefix="desk-"))  # short: it holds a socket
    shutil.copytree(REPOSITORY / "examples", place / "examples")
    (place / "tasks.py").write_text(blocks(README, "python")[0].text)
    env = {k: v for k, v in os.environ.items() if not k.startswith("SUPERVISOR_")}
    env |= {
        "PATH": f"{BIN}:{env['PATH']}",
        "HOME": str(place),
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_RUNTIME_DIR": str(place / "run"),
        "TMPDIR": str(place / "scratch"),
        "SUPERVISOR_METRICS_LISTEN": "127.0.0.1:0",
        "SUPERVISOR_WORKERS": "2",
    }
    for name in ("run", "scratch"):
        (place / name).mkdir(mode=0o700)
    made = Desk(place, env)
    yield made
    codes = made.stop()
    shutil.rmtree(place)
    assert codes == [0] * len(codes)


def console() -> list[Block]:
    return blocks(README, "console")


@pytest.mark.timeout(180)
def test_every_command_of_the_readme_runs(desk: Desk) -> None:
    said = {}
    for block in console():
        script = "\n".join(block.commands)
        if script == "make demo":
            continue  # by tests/integration/test_demo.py
        if script.startswith("supervisor run "):
            desk.start(script)
        else:
            said[block.commands[-1]] = desk.run(script)
    assert "SUCCESS" in said["supervisor list"]
    assert "deadlock.in_process" in said["kill -9 $!"]
    stepping_in = said["supervisor top"]
    assert "rerun   PENDING" in stepping_in
    assert "wrong month" in stepping_in
    assert "resumed" in stepping_in


def test_make_has_the_targets_that_the_readme_names() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "demo", "check", "test", "help"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "supervisor demo" in done.stdout


def test_the_program_of_the_readme_prints_what_became_of_its_task(desk: Desk) -> None:
    desk.start("supervisor run tasks:app")
    task_id, state = desk.run("python tasks.py").split()
    assert (task_id[:5], len(task_id), state) == ("task_", 37, "SUCCESS")


def test_the_larger_example_runs(desk: Desk) -> None:
    shutil.copy(desk.place / "examples" / "shop.py", desk.place)
    desk.start("supervisor run shop:app")
    assert desk.run("python shop.py") == "SUCCESS {'pages': 3, 'from_page': 0}\n"
    mails = desk.run("sleep 1; supervisor list --json --type send_mail")
    assert mails.count('"SUCCESS"') == 3
