"""Private servers: a free loopback port and a folder of their own, ended by their pid."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

START_S = 30.0
#: What makes a PostgreSQL keep every commit and clean up behind itself while it is measured.
DURABLE = (
    *("fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=256MB"),
    *("autovacuum=on", "autovacuum_naptime=5s"),
)
#: What makes a Redis keep nothing: a doorbell has nothing to lose.
FORGETFUL = ("--save", "", "--appendonly", "no")
Kind = Literal["redis", "postgres", "postgres+redis"]
ALL: tuple[Kind, ...] = ("redis", "postgres")


@dataclass(frozen=True, slots=True)
class Server:
    """Running servers: how clients reach the one that keeps, and the bell; their processes."""

    address: str
    pids: tuple[int, ...]
    bell: str = "none"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def serving(kind: Kind | None, folder: Path) -> AbstractContextManager[Server | None]:
    """Run such a server until the end of the block, Redis at its defaults; None runs none."""
    if kind is None:
        return nullcontext(None)
    if kind == "postgres+redis":
        return _both(folder)
    return _redis(folder) if kind == "redis" else durable_postgresql(folder)


@contextmanager
def _both(folder: Path) -> Iterator[Server]:
    """Run a PostgreSQL and beside it a Redis that keeps nothing."""
    with durable_postgresql(folder) as store, forgetful_redis(folder) as bell:
        yield Server(store.address, (*store.pids, *bell.pids), bell.address)


def forgetful_redis(folder: Path) -> AbstractContextManager[Server]:
    """Run a Redis that keeps nothing on disk until the end of the block."""
    return _redis(folder, *FORGETFUL)


def missing(kinds: Iterable[str | None]) -> list[str]:
    """Return the Debian packages of servers that are wanted and not installed."""
    words, wanted = " ".join(kind or "" for kind in kinds), []
    if "redis" in words and shutil.which("redis-server") is None:
        wanted.append("redis-server")
    if "postgres" in words and not _postgres_programs():
        wanted.append("postgresql")
    return wanted


def versions(kind: Kind | None) -> dict[str, str]:
    """Return the versions of the servers of such a kind."""
    found = {}
    if "postgres" in (kind or ""):
        found["PostgreSQL"] = _version([f"{_postgres_programs()}/postgres", "--version"])
    if "redis" in (kind or ""):
        found["Redis"] = _version(["redis-server", "--version"])
    return found


def _version(command: Sequence[str]) -> str:
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    number = re.search(r"\d+(\.\d+)+", said)
    assert number is not None, said
    return number[0]


def install(packages: Sequence[str]) -> None:
    """Install Debian packages; needs root."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=60"]
    subprocess.run([*apt, "update"], check=True, env=quiet)
    command = [*apt, "install", "-y", "--no-install-recommends", *packages]
    subprocess.run(command, check=True, env=quiet, stdout=subprocess.DEVNULL)


@contextmanager
def _redis(folder: Path, *options: str) -> Iterator[Server]:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", *options]
    data = folder / "redis"
    data.mkdir()

    def answers() -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as line:
            line.sendall(b"PING\r\n")
            return line.recv(16).startswith(b"+PONG")

    with _running(command, data, signal.SIGTERM, answers) as pid:
        yield Server(f"redis://127.0.0.1:{port}/0", (pid,))


@contextmanager
def durable_postgresql(folder: Path) -> Iterator[Server]:
    """Run a PostgreSQL that keeps every commit until the end of the block."""
    port, programs = free_port(), Path(_postgres_programs())
    owner = "postgres" if os.getuid() == 0 else None  # it refuses to run as root
    data = folder / "pg"
    data.mkdir(mode=0o700)
    if owner is not None:
        account = pwd.getpwnam(owner)
        os.chown(data, account.pw_uid, account.pw_gid)
    initdb = [str(programs / "initdb"), "--auth=trust", "--username=bench", "--pgdata=."]
    initdb += ["--encoding=UTF8", "--locale=C", "--no-sync"]
    subprocess.run(initdb, check=True, cwd=data, user=owner, stdout=subprocess.DEVNULL)
    command = [str(programs / "postgres"), "-D", ".", "-p", str(port)]
    command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    command += [word for setting in DURABLE for word in ("-c", setting)]
    ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]

    def answers() -> bool:
        return subprocess.run(ready, check=False).returncode == 0

    with _running(command, data, signal.SIGINT, answers, owner) as pid:
        yield Server(f"postgresql://bench@127.0.0.1:{port}/postgres", (pid,))


@contextmanager
def _running(
    command: Sequence[str],
    folder: Path,
    end: signal.Signals,
    answers: Callable[[], bool],
    owner: str | None = None,
) -> Iterator[int]:
    log = folder.with_suffix(".log")
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, cwd=folder, user=owner, stdout=out, stderr=out, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_S
        while not _answered(answers):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-1000:]}")
            time.sleep(0.05)
        yield server.pid
    finally:
        server.send_signal(end)
        server.wait(30)


def _answered(answers: Callable[[], bool]) -> bool:
    try:
        return answers()
    except OSError:
        return False


def _postgres_programs() -> str:
    return max(map(str, Path("/usr/lib/postgresql").glob("*/bin")), default="")
