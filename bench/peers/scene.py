"""One queue at work: its producer, its workers and what the bodies wrote, in its own folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.node import ROOT, cpu_s
from bench.peers import paths, server
from bench.peers.bodies import COUNTED, EVENTS
from bench.peers.roster import Peer

POLITE_S = 10.0


@dataclass(frozen=True, slots=True)
class Event:
    """One line that a body wrote; `at` is monotonic."""

    name: str
    what: str
    pid: int
    at: float


@dataclass(slots=True)
class Scene:
    """The parts of one queue; `ask` talks to its producer."""

    peer: Peer
    bin_folder: Path
    folder: Path
    environ: dict[str, str]
    server: server.Server | None
    producer: subprocess.Popen[str]
    leaders: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def ask(self, do: str, **request: Any) -> Any:
        """Let the producer do something and return its answer."""
        assert self.producer.stdin is not None
        self.producer.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self.producer.stdin.flush()
        return self.heard()

    def heard(self) -> Any:
        """Return the next answer of the producer."""
        assert self.producer.stdout is not None
        line = self.producer.stdout.readline()
        if not line:
            log = (self.folder / "producer.log").read_text()[-1500:]
            raise RuntimeError(f"the producer of {self.peer.name} ended: {log}")
        return json.loads(line)

    def start_workers(self, flags: Sequence[str] = ()) -> None:
        """Start what runs tasks in two processes."""
        told = {"address": self.environ[paths.ADDRESS], "bell": self.environ[paths.BELL]}
        for command in self.peer.workers:
            words = [word.format(**told) for word in (*command, *flags)]
            with (self.folder / "workers.log").open("ab") as log:
                self.leaders.append(
                    subprocess.Popen(
                        [str(self.bin_folder / words[0]), *words[1:]],
                        cwd=ROOT,
                        env=self.environ,
                        start_new_session=True,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                    )
                )

    def end_workers(self) -> None:
        """Ask them to stop, then kill every process that is left, by its pid."""
        everyone = [one for leader in self.leaders for one in _family(leader.pid)]
        for leader in self.leaders:
            with suppress(ProcessLookupError):
                leader.send_signal(signal.SIGTERM)
        psutil.wait_procs(everyone, POLITE_S)
        for one in everyone:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        for leader in self.leaders:
            leader.wait()
        self.leaders.clear()

    def workers_cpu_s(self) -> float:
        """Return the CPU seconds of all workers and whatever watches over them."""
        return sum(cpu_s(leader.pid) for leader in self.leaders)

    def server_cpu_s(self) -> float:
        """Return the CPU seconds of the servers."""
        return sum(cpu_s(pid) for pid in self.server.pids) if self.server else 0.0

    def memory_bytes(self) -> int:
        """Return the proportional memory of workers and whatever watches over them."""
        total = 0
        for one in (one for leader in self.leaders for one in _family(leader.pid)):
            with suppress(psutil.NoSuchProcess):
                total += one.memory_full_info().pss
        return total

    def counted(self) -> int:
        """Return how many no-ops have run."""
        return (self.folder / COUNTED).stat().st_size // 8

    def events(self, what: str = "", name: str = "") -> list[Event]:
        """Return what the bodies said, oldest first."""
        rows = [line.split() for line in (self.folder / EVENTS).read_text().splitlines()]
        events = [Event(row[0], row[1], int(row[2]), int(row[3]) / 1e9) for row in rows]
        return [e for e in events if what in ("", e.what) and name in ("", e.name)]

    def began(self, what: str, times: int = 1, within_s: float = 60) -> Event:
        """Wait until a body has begun that many times and return the latest beginning."""
        deadline = time.monotonic() + within_s
        while len(found := self.events(what, "began")) < times:
            if time.monotonic() > deadline:
                log = (self.folder / "workers.log").read_text()[-1500:]
                raise TimeoutError(f"{self.peer.name}: {what} did not begin: {log}")
            time.sleep(0.005)
        return found[-1]


@contextmanager
def staged(peer: Peer, bin_folder: Path, folder: Path) -> Iterator[Scene]:
    """Start server and producer of a queue; at the end, end everything that was started."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for name in (COUNTED, EVENTS):
        (folder / name).touch()
    with server.serving(peer.server, folder) as served:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SUPERVISOR_")}
        environ |= {
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            paths.FOLDER: str(folder),
            paths.ADDRESS: served.address if served else _file(peer, folder),
            paths.BELL: served.bell if served else "none",
        }
        with (folder / "producer.log").open("wb") as log:
            producer = subprocess.Popen(
                [bin_folder / "python", "-m", "bench.peers.producer", peer.adapter],
                cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        scene = Scene(peer, bin_folder, folder, environ, served, producer)
        try:
            scene.heard()
            yield scene
        finally:
            scene.end_workers()
            producer.kill()
            producer.communicate()


def _file(peer: Peer, folder: Path) -> str:
    return f"sqlite:///{folder / 'tasks.db'}" if peer.environment is None else ""


def _family(pid: int) -> list[psutil.Process]:
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
