"""Real servers of a test's own (PostgreSQL, PgBouncer, Redis): a free port, a directory, no trace.

Secret kept here: how each is started in under a second, crashed, started again on what it had and
ended by its pid. No pytest in here: the corpus of stuck programs is scored with the same servers.
A server dies with the process (and the thread) that started it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

READY_S = 20.0
#: The user that PostgreSQL runs as where we are root, which it refuses to run as.
UNPRIVILEGED = ("postgres", "nobody")


class ServerMissing(Exception):
    """The program is not installed, or did not start."""


@dataclass(slots=True, eq=False)
class Server:
    """A server that runs: its process, port and directory (with its unix-domain socket)."""

    command: Sequence[str]
    port: int
    directory: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def started(cls, command: Sequence[str], port: int, directory: Path) -> Self:
        """Start it and wait until it answers. Raises ServerMissing, and removes the directory."""
        made = cls(command, port, directory, _start(command, directory))
        try:
            made.wait_ready()
        except ServerMissing:
            made.stop()
            raise
        return made

    @property
    def pid(self) -> int:
        """Return the pid of the server (of PostgreSQL's first process)."""
        return self.process.pid

    @property
    def log(self) -> str:
        """Return what it has written so far."""
        return (self.directory / "log").read_text(errors="replace")

    @property
    def is_ready(self) -> bool:
        """Say whether it lets people in."""
        raise NotImplementedError

    def wait_ready(self) -> None:
        """Raises ServerMissing when it does not let people in within a while."""
        deadline = time.monotonic() + READY_S
        while not self.is_ready:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise ServerMissing(f"the server did not start: {self.log[-2000:]}")
            time.sleep(0.01)

    def crash(self) -> None:
        """End it at once, as it is; its directory stays."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def start_again(self) -> None:
        """Start it after a crash, on the same port and what it left in its directory."""
        self.process = _start(self.command, self.directory)
        self.wait_ready()

    def stop(self) -> None:
        """End it at once and remove its directory."""
        self.crash()
        shutil.rmtree(self.directory)


class PostgreSQL(Server):
    """A PostgreSQL that trusts everybody; its superuser is `postgres`."""

    @property
    def dsn(self) -> str:
        """Return the connection string of the superuser, over TCP."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    @property
    def local_dsn(self) -> str:
        """Return the connection string of the superuser, over the unix-domain socket."""
        return f"host={self.directory} port={self.port} user=postgres dbname=postgres"

    @property
    def url(self) -> str:
        """Return the URL of the superuser, over TCP."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def is_ready(self) -> bool:
        """The eighth line of a file of its says so; one left by a crash names another process."""
        file = self.directory / "data" / "postmaster.pid"
        lines = file.read_text().splitlines() if file.exists() else []
        return len(lines) > 7 and int(lines[0]) == self.pid and lines[7].strip() == "ready"


class Redis(Server):
    """A Redis without a password that keeps nothing on disk."""

    @property
    def url(self) -> str:
        """Return its URL, over TCP."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket_path(self) -> str:
        """Return the path of its unix-domain socket."""
        return str(self.directory / "redis.sock")

    @property
    def is_ready(self) -> bool:
        """It answers a PING, be it with an error."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as line:
                line.sendall(b"PING\r\n")
                return line.recv(1) in (b"+", b"-")
        except OSError:
            return False


class PgBouncer(Server):
    """A pooler in front of a PostgreSQL: a server connection is lent for one transaction."""

    def url(self, database: str) -> str:
        """Return the URL of a database of its PostgreSQL, through it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def is_ready(self) -> bool:
        """It accepts connections."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def start_postgresql(
    *options: str, password: str = "", local: str = "trust", address: str = "", network: str = ""
) -> PostgreSQL:
    """Start a PostgreSQL; `options` are `name=value` of postgresql.conf.

    With a password, the superuser needs it over TCP; `local` is how the unix-domain socket lets in;
    it also listens on `address` and trusts everybody of `network` there. Raises ServerMissing.
    """
    program = _postgresql_program("postgres")
    directory = Path(tempfile.mkdtemp(prefix="pg-"))
    user = _unprivileged() if os.geteuid() == 0 else None
    if user is not None:
        os.chown(directory, user.pw_uid, user.pw_gid)
    data, port = directory / "data", free_port()
    _initialize(directory, data, user, password, local)
    if network:
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {network} trust\n")
    settings = [
        f"listen_addresses=127.0.0.1{address and ','}{address}",
        f"unix_socket_directories={directory}",
        *("fsync=off", "synchronous_commit=off", "full_page_writes=off"),
        *("shared_buffers=16MB", "max_connections=150", "autovacuum=off"),
        *options,
    ]
    flags = [word for one in settings for word in ("-c", one)]
    command = [*as_user(user), program, "-D", str(data), "-p", str(port), *flags]
    return PostgreSQL.started(command, port, directory)


def start_redis(*options: str, address: str = "") -> Redis:
    """Start a Redis, also on `address`; `options` are words of its command line.

    Raises ServerMissing.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise ServerMissing("redis-server is not installed")
    directory, port = Path(tempfile.mkdtemp(prefix="redis-")), free_port()
    bind = ["127.0.0.1", address] if address else ["127.0.0.1"]
    open_to_all = ["--protected-mode", "no"] if address else []
    command = [
        *as_user(None),
        *(program, "--port", str(port), "--bind", *bind, *open_to_all),
        *("--save", "", "--appendonly", "no", "--dir", str(directory)),
        *("--unixsocket", str(directory / "redis.sock"), *options),
    ]
    return Redis.started(command, port, directory)


def start_pgbouncer(postgresql: PostgreSQL, **settings: object) -> PgBouncer:
    """Start a PgBouncer in transaction mode in front of a PostgreSQL; `settings` are of its file.

    Raises ServerMissing.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise ServerMissing("pgbouncer is not installed")
    directory, port = Path(tempfile.mkdtemp(prefix="pgbouncer-")), free_port()
    users = directory / "users"
    users.write_text('"postgres" ""\n')
    lines = {
        "listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "",
        "auth_type": "trust", "auth_file": users, "admin_users": "postgres",
        "pool_mode": "transaction", "default_pool_size": 10, "max_client_conn": 100, **settings,
    }  # fmt: skip
    file = directory / "pgbouncer.ini"
    target = f"* = host=127.0.0.1 port={postgresql.port}"
    body = "".join(f"{name} = {value}\n" for name, value in lines.items())
    file.write_text(f"[databases]\n{target}\n[pgbouncer]\n{body}")
    user = _unprivileged() if os.geteuid() == 0 else None  # it refuses to run as root, too
    if user is not None:
        for path in (directory, users, file):
            os.chown(path, user.pw_uid, user.pw_gid)
    return PgBouncer.started([*as_user(user), program, str(file)], port, directory)


@contextlib.contextmanager
def proxy(port: int, swallow: threading.Event | None = None) -> Iterator[int]:
    """Pass connections on to a port, as a pooler or a tunnel does: the server sees other ends.

    While `swallow` is set, what is sent is taken and goes nowhere, as on a line that is half open.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        lines: list[socket.socket] = []

        def pump(source: socket.socket, target: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    if swallow is None or not swallow.is_set():
                        target.sendall(data)
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, _ = listening.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    lines.extend((near, far))
                    for pair in ((near, far), (far, near)):
                        threading.Thread(target=pump, args=pair, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for line in lines:
                line.close()


def _initialize(
    directory: Path, data: Path, user: pwd.struct_passwd | None, password: str, local: str
) -> None:
    command = [
        *as_user(user),
        *(_postgresql_program("initdb"), "-D", str(data), "-U", "postgres", "--no-sync"),
        *("--encoding=UTF8", "--locale=C", f"--auth-local={local}"),
        f"--auth-host={'scram-sha-256' if password else 'trust'}",
    ]
    if password:
        secret = directory / "password"
        secret.write_text(password)
        secret.chmod(0o644)  # in a directory of the server's own
        command += ["--pwfile", str(secret)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    if done.returncode:
        shutil.rmtree(directory)
        raise ServerMissing(f"initdb failed: {done.stderr}")


def _postgresql_program(name: str) -> str:
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name)]
    if found[-1] is None:
        raise ServerMissing("PostgreSQL is not installed")
    return found[-1]


def _unprivileged() -> pwd.struct_passwd:
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerMissing("PostgreSQL does not run as root and there is no other user")


def as_user(user: pwd.struct_passwd | None) -> list[str]:
    """Return what makes a command run as that user, and die with us."""
    change = [] if user is None else [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
    # Started in the background of a shell, we and they ignore SIGQUIT; Redis would outlive us.
    heedful = ["env", "--default-signal=QUIT"]
    groups = ["--clear-groups"] if change else []
    return [*heedful, "setpriv", "--pdeathsig=QUIT", *change, *groups, "--"]


def _start(command: Sequence[str], directory: Path) -> subprocess.Popen[bytes]:
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory
        )


def free_port() -> int:
    """Return a port that nobody listens at; who takes it next is not said."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
