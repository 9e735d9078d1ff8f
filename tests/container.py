"""A service of docker-compose.yml as its container would have it, without an engine (bubblewrap).

Secret kept here: how user, capabilities, read-only root, tmpfs, volumes, pid namespace and stop
signal of a service are had without an engine. The network is this machine's: so `moved` gives
other numbers for its ports, everywhere the service names them. Needs root.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import compose
import image
from servers import free_port

from supervisor.worker import tree

READY_S = 60.0
OWN_IMAGE = "task-supervisor:0.1.0"
#: Where programs are that this machine has for the images of others.
PROGRAMS = "/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: What these images begin a command with.
ENTRYPOINTS = {"prom/prometheus": "prometheus", "prom/alertmanager": "prometheus-alertmanager"}
#: Services whose programs there are for containers only; their files are read by other tests.
ABSENT = ("grafana", "otel-collector")
#: Where each service listens, in its own container.
PORTS = {
    "postgres": "5432",
    "redis": "6379",
    "node-1": "9464",
    "node-2": "9464",
    "web": "8080",
    "prometheus": "9090",
    "alertmanager": "9093",
}

#: What the image of PostgreSQL does on an empty volume before it hands over to the command.
_FIRST_START = """
if [ ! -e "$PGDATA/PG_VERSION" ]; then
    (umask 077; printf '%s\\n' "$POSTGRES_PASSWORD" >/tmp/password)
    initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile=/tmp/password --no-sync \
        --auth-local=trust --auth-host=scram-sha-256 $POSTGRES_INITDB_ARGS
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    pg_ctl --pgdata="$PGDATA" --wait start --options="-c listen_addresses='' ${2:+$2 $3}"
    for script in /docker-entrypoint-initdb.d/*; do "$script"; done
    pg_ctl --pgdata="$PGDATA" --wait --mode=fast stop
fi
exec "$@"
"""


@dataclass(slots=True)
class Container:
    """One service; `made` is the image of the Dockerfile, None for those of others."""

    name: str
    service: compose.Service
    root: Path
    made: image.Stage | None = None
    moved: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    first_pid: int = 0

    # -- life

    def start(self) -> Container:
        """Start its command; the log is a file beside its volumes."""
        command = [self._moved(word) for word in self.service["command"]]
        image_name = self.service["image"].partition(":")[0]
        if image_name == "postgres":
            command = ["sh", "-ec", _FIRST_START, "entrypoint", *command]
        elif image_name in ENTRYPOINTS:
            command = [ENTRYPOINTS[image_name], *command]
        reading, writing = os.pipe()
        with os.fdopen(reading) as told, self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._confined("--info-fd", str(writing)), *command],
                env=self.environment, pass_fds=(writing,),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            os.close(writing)
            self.first_pid = json.load(told)["child-pid"]
        return self

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run another command in the container, as `docker compose exec` does."""
        enter = [f"--target={self.first_pid}", "--mount", "--pid", "--ipc", "--uts"]
        where = f"--chdir={self._workdir}"
        return subprocess.run(
            ["nsenter", *enter, "env", where, *self._rights(), *map(self._moved, command)],
            env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def is_healthy(self) -> bool:
        """Run its health check, once."""
        kind, *command = self.service["healthcheck"]["test"]
        assert kind == "CMD"
        return self.run(*command).returncode == 0

    def wait_healthy(self) -> Container:
        """Wait as `condition: service_healthy` does."""
        deadline = time.monotonic() + READY_S
        while not self.is_healthy():
            assert self.running, f"{self.name} ended:\n{self.log}"
            assert time.monotonic() < deadline, f"{self.name} is not healthy:\n{self.log}"
            time.sleep(0.1)
        return self

    def wait(self, timeout: float = READY_S) -> int:
        """Wait for its end and return the exit code."""
        assert self.process is not None
        return self.process.wait(timeout)

    def stop(self, number: int = signal.SIGTERM, timeout: float = 30.0) -> int:
        """Signal what the init process started, as an engine does, and return the exit code."""
        for pid in tree.children(self.first_pid):
            os.kill(pid, number)
        return self.wait(timeout)

    def kill(self) -> None:
        """End the pid namespace, whatever is in it."""
        if self.running:
            os.kill(self.first_pid, signal.SIGKILL)
            self.wait()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log_file(self) -> Path:
        return self.root / f"{self.name}.log"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    # -- what it is started with

    @property
    def environment(self) -> dict[str, str]:
        """Return what its processes find in their environment, and nothing of ours."""
        given = self.service.get("environment", {})
        from_image = {} if self.made is None else self.made.environment
        own = {name: self._moved(str(value)) for name, value in {**from_image, **given}.items()}
        if self.made is not None:
            return own
        home = {"PATH": PROGRAMS, "PGDATA": "/var/lib/postgresql/data", "PGHOST": "/run/postgresql"}
        return home | own | ({"PGPORT": self.moved["5432"]} if "5432" in self.moved else {})

    @property
    def _workdir(self) -> str:
        return self.made.workdir if self.made else "/"

    def _confined(self, *options: str) -> list[str]:
        read_only = ["--remount-ro", "/"] if self.service["read_only"] else []
        return [
            *("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
            *("--hostname", self.name, "--cap-add", "ALL", *options),
            *image.machine(),
            *self._system(),
            *self._tmpfs(),
            *self._volumes(),
            *read_only,
            *("--chdir", self._workdir),
            *self._rights(),
        ]

    def _system(self) -> list[str]:
        if self.made is not None:
            return self.made.binds("--ro-bind")
        words = ["--tmpfs", "/usr/local", "--perms", "0755", "--dir", "/run"]
        words += [*image.parents("/var/run"), "--symlink", "/run", "/var/run"]
        for path in ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache"):
            words += [*image.parents(path), "--ro-bind", path, path]
        return words

    def _tmpfs(self) -> list[str]:
        words = []
        for text in self.service.get("tmpfs", []):
            path, _, options = text.partition(":")
            given = dict(option.split("=") for option in options.split(",") if option)
            limit = ["--size", str(compose.size(given["size"]))] if "size" in given else []
            words += [
                *image.parents(path),
                "--perms",
                given.get("mode", "1777"),
                *limit,
                "--tmpfs",
                path,
            ]
        return words

    def _volumes(self) -> list[str]:
        words = []
        for source, target, is_read_only in compose.mounts(self.service):
            is_path = source.startswith((".", "/"))
            place = self._file(source) if is_path else self._volume(source, target)
            option = "--ro-bind" if is_read_only else "--bind"
            words += [*image.parents(target), option, str(place), target]
        return words

    def _file(self, source: str) -> Path:
        """Return a file of the repository, or a copy of it that names other ports."""
        original = (compose.REPOSITORY / source).resolve()
        if original.is_dir() or self._moved(original.read_text()) == original.read_text():
            return original
        copy = self.root / f"{self.name}-{original.name}"
        copy.write_text(self._moved(original.read_text()))
        copy.chmod(0o644)
        return copy

    def _volume(self, name: str, target: str) -> Path:
        """Return a named volume; a new one belongs to whom the image's directory belongs."""
        place = self.root / "volumes" / name
        if not place.exists():
            place.mkdir(parents=True)
            if self.made is not None:
                like = self.made.inside(target).stat()
                os.chown(place, like.st_uid, like.st_gid)
                place.chmod(like.st_mode & 0o7777)
            else:
                os.chown(place, *self._ids())
                place.chmod(0o700)
        return place

    def _rights(self) -> list[str]:
        uid, gid = self._ids()
        assert self.service["cap_drop"] == ["ALL"]
        assert self.service["security_opt"] == ["no-new-privileges:true"]
        added = [f"+{one.lower()}" for one in self.service.get("cap_add", [])]
        return [
            *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"),
            *("--inh-caps=-all", f"--bounding-set={','.join(['-all', *added])}"),
            *("--no-new-privs", "--"),
        ]

    def _ids(self) -> tuple[int, int]:
        user = str(self.service.get("user") or (self.made.user if self.made else "root"))
        if ":" in user:
            uid, gid = map(int, user.split(":"))
            return uid, gid
        entry = pwd.getpwnam(user)
        return entry.pw_uid, entry.pw_gid

    def _moved(self, text: str) -> str:
        if not self.moved:
            return text
        longest_first = sorted(map(re.escape, self.moved), key=len, reverse=True)
        return re.sub("|".join(longest_first), lambda found: self.moved[found[0]], text)


class Stack:
    """The containers that can be had, started in the order in which they depend on each other."""

    def __init__(self, root: Path, variables: Mapping[str, str], made: image.Stage) -> None:
        root.chmod(0o755)
        ports = {name: str(free_port()) for name in PORTS}
        given = {
            "POSTGRES_ADDRESS": f"127.0.0.1:{ports['postgres']}",
            "REDIS_ADDRESS": f"127.0.0.1:{ports['redis']}",
            **variables,
        }
        # Services name each other, and only one of each kind listens at a port.
        addresses = {f"{name}:{PORTS[name]}": f"127.0.0.1:{port}" for name, port in ports.items()}
        self.containers = {
            name: Container(
                name,
                service,
                root,
                made if service["image"] == OWN_IMAGE else None,
                {**addresses, **({PORTS[name]: ports[name]} if name in PORTS else {})},
            )
            for name, service in compose.services(given).items()
            if name not in ABSENT
        }
        self.ports = ports

    def up(self) -> None:
        """Start every service when what it depends on is as it asks."""
        for name in self._order():
            for other, wanted in self.containers[name].service.get("depends_on", {}).items():
                self._await(self.containers[other], wanted["condition"])
            self.containers[name].start()

    def down(self) -> None:
        """End all, the dependent ones first."""
        for name in reversed(self._order()):
            self.containers[name].kill()
        shutil.rmtree(next(iter(self.containers.values())).root)

    def _order(self) -> Sequence[str]:
        order: list[str] = []

        def add(name: str) -> None:
            for other in self.containers[name].service.get("depends_on", {}):
                add(other)
            if name not in order:
                order.append(name)

        for name in self.containers:
            add(name)
        return order

    def _await(self, other: Container, condition: str) -> None:
        match condition:
            case "service_started":
                assert other.running, other.log
            case "service_healthy":
                other.wait_healthy()
            case "service_completed_successfully":
                assert other.wait() == 0, other.log

    def __getitem__(self, name: str) -> Container:
        return self.containers[name]


def document(done: subprocess.CompletedProcess[str]) -> Any:
    """Return what a command printed with --json."""
    assert done.stdout, done.stderr
    return json.loads(done.stdout)
