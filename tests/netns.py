"""A small network of a test's own: a bridge, and hosts that can be cut off from it and healed.

Secret kept here: every host is an unnamed network namespace, held by a process that dies with the
thread that made it, so nothing stays behind even after a SIGKILL of the tests. We are on the bridge
as well (`address`). A host that is cut off keeps its link: its packets, and those to it, vanish
without an answer, and connections stay half open on both sides. Needs root and `ip`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

READY_S = 5.0
#: Of the range that is set aside for such tests (RFC 2544), one of 250 by our pid.
_NETWORK = "198.18.{}"
_OUR_HARDWARE, _HARDWARE = "02:00:00:00:01:00", "02:00:00:00:00:{:02x}"


class NetworkMissing(Exception):
    """This machine lets us make no network namespace, or has no `ip`."""


class Namespace:
    """A network namespace and the process that holds it."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "--", "unshare", "--net", "sleep", "infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            self._wait_until_it_is_there()
            self.run("ip", "link", "set", "lo", "up")
        except NetworkMissing:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._holder.pid

    @property
    def prefix(self) -> list[str]:
        """Return what makes a command run inside; the process stays the one that was started."""
        return ["nsenter", "--target", str(self.pid), "--net", "--"]

    def run(self, *command: str) -> None:
        """Run a command inside. Raises NetworkMissing with what it said."""
        _run([*self.prefix, *command])

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()

    def _wait_until_it_is_there(self) -> None:
        deadline = time.monotonic() + READY_S
        while _network_of(self.pid) == _network_of(os.getpid()):
            if self._holder.poll() is not None or time.monotonic() > deadline:
                raise NetworkMissing("no network namespace could be made; that needs root")
            time.sleep(0.005)


class Network:
    """A bridge with us at `.1` and hosts 0, 1, … at `.10`, `.11`, …; a context manager."""

    def __init__(self, hosts: int) -> None:
        number = os.getpid() % 250
        self._start = _NETWORK.format(number)
        self.range = f"{self._start}.0/24"
        self.address = f"{self._start}.1"
        self._ours = f"tasks{number}"
        self._namespaces: list[Namespace] = []
        try:
            self._make(hosts)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all of it; what still runs inside keeps its namespace, alone, until it ends."""
        if Path(f"/sys/class/net/{self._ours}").exists():
            _run(["ip", "link", "delete", self._ours])
        while self._namespaces:
            self._namespaces.pop().close()

    def prefix(self, host: int) -> list[str]:
        """Return what makes a command run on a host."""
        return self._host(host).prefix

    def host_address(self, host: int) -> str:
        """Return the address of a host."""
        return f"{self._start}.{10 + host}"

    def cut(self, host: int) -> None:
        """Let every packet from and to a host vanish."""
        self._bridge.run("ip", "link", "set", f"port{host}", "nomaster")

    def heal(self, host: int) -> None:
        """Let packets pass again."""
        self._bridge.run("ip", "link", "set", f"port{host}", "master", "bridge")

    @property
    def _bridge(self) -> Namespace:
        return self._namespaces[0]

    def _host(self, number: int) -> Namespace:
        return self._namespaces[1 + number]

    def _make(self, hosts: int) -> None:
        self._namespaces = [Namespace()]
        self._bridge.run("ip", "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        self._bridge.run("ip", "link", "set", "bridge", "up")
        link = ["ip", "link", "add", self._ours, "address", _OUR_HARDWARE, "type", "veth"]
        _run([*link, "peer", "name", "ours", "netns", str(self._bridge.pid)])
        self._plug_in("ours")
        _run(["ip", "address", "add", f"{self.address}/24", "dev", self._ours])
        _run(["ip", "link", "set", self._ours, "up"])
        for number in range(hosts):
            self._add_host(number)

    def _add_host(self, number: int) -> None:
        host, port = Namespace(), f"port{number}"
        self._namespaces.append(host)
        hardware = ["address", _HARDWARE.format(number)]
        peer = ["peer", "name", "eth0", *hardware, "netns", str(host.pid)]
        self._bridge.run("ip", "link", "add", port, "type", "veth", *peer)
        self._plug_in(port)
        host.run("ip", "address", "add", f"{self.host_address(number)}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        # Nobody has to ask for an address that nobody would answer for: no send ever fails.
        self._pin(host.prefix, self.address, _OUR_HARDWARE, "eth0")
        self._pin([], self.host_address(number), _HARDWARE.format(number), self._ours)

    def _plug_in(self, port: str) -> None:
        self._bridge.run("ip", "link", "set", port, "master", "bridge", "up")

    def _pin(self, prefix: Sequence[str], address: str, hardware: str, device: str) -> None:
        words = ["ip", "neighbour", "replace", address, "lladdr", hardware, "dev", device]
        _run([*prefix, *words, "nud", "permanent"])


def _network_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as exc:
        raise NetworkMissing(f"{command[0]} is not installed") from exc
    if done.returncode:
        raise NetworkMissing(f"{' '.join(command)}: {done.stderr.strip()}")
