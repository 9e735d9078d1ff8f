"""What the demo stands on: a throw-away directory, a node as a subprocess, and the look afterwards.

Secret kept here: how the node is started (the same entry people use) and how its end is verified.
The demo makes itself the reaper of all that the node might orphan, so that what is left behind is
found below it, whatever it did to its session or environment.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from supervisor.client import Client
from supervisor.clock import Clock
from supervisor.errors import SupervisorError
from supervisor.node.process import become_reaper, marked_processes
from supervisor.settings import (
    Settings,
    config_error,
    load_settings,
    node_grace,
    relation_problems,
    show,
    table,
)
from supervisor.worker import tree
from supervisor.worker.zygote import PR_SET_PDEATHSIG, prctl

APP = "supervisor.demo.tasks:app"
#: Short limits, so that minutes become seconds. Flags of the demo stand above them.
SETTINGS = {
    "workers": "8",
    "metrics_listen": "127.0.0.1:0",  # a free one
    "web_listen": "127.0.0.1:0",
    "timeout": "20",
    "retry_base": "0.5",
    "cancel_grace": "2",
    "sweep_interval": "1",
    "drain_grace": "2",
    "checkpoint_budget": "1",
    "release_budget": "1",
    "exit_budget": "1",
    "autopsy_budget": "6",
}
#: Belong to the throw-away directory and cannot be pointed elsewhere.
_OWN = frozenset({"store", "autopsy_dir"})
LOG_LINES_SHOWN = 5
POLL_S = 0.05
#: A page that is on its way is not waited for.
PAGES_GRACE_S = 6.0
#: What was SIGKILLed with its parent needs a moment to be gone.
GONE_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that outlived the node."""

    pid: int
    command: str


class Stage:
    """Directory, settings and node of one demo."""

    def __init__(
        self,
        given: Settings,
        clock: Clock,
        *,
        app: str = APP,
        limits: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._clock = clock
        self._app = app
        self._values = {**SETTINGS, **limits, **_flags(given)}
        if problems := relation_problems(load_settings(self._values, {})):
            raise config_error(problems)
        self.directory = Path(tempfile.mkdtemp(prefix="supervisor-demo-"))
        self.store = f"sqlite:///{self.directory / 'demo.db'}"
        self.autopsies = self.directory / "autopsies"
        self.log = self.directory / "node.log"
        self._web_said = self.directory / "web.json"
        self._values |= {"store": self.store, "autopsy_dir": str(self.autopsies)}
        self.settings = load_settings(self._values, {})
        self.client = Client(self.settings)
        self._node: subprocess.Popen[bytes] | None = None
        self._web: subprocess.Popen[bytes] | None = None
        self._node_ids: set[str] = set()
        become_reaper()

    # --- the node -----------------------------------------------------------------------------

    def start(self, *, with_pages: bool) -> None:
        """Start the node and, for people, the pages."""
        with self.log.open("wb") as log:
            self._node = self._started("run", self._app, out=log, errors=log)
        if with_pages:
            with self._web_said.open("wb") as said, (self.directory / "web.log").open("wb") as log:
                self._web = self._started("web", "--json", out=said, errors=log)

    def _started(self, *command: str, out: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start one of our commands, in a session of its own so that Ctrl-C reaches us only."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SUPERVISOR_")}
        environment |= {f"SUPERVISOR_{k.upper()}": v for k, v in self._values.items()}
        return subprocess.Popen(
            [sys.executable, "-m", "supervisor.cli", *command],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - the demo has one thread
        )

    def check_alive(self) -> None:
        """Raises: SupervisorError with the node's last words when it has ended by itself."""
        if self._node is not None and self._node.poll() is not None:
            words = "\n".join(
                self.log.read_text("utf-8", "replace").splitlines()[-LOG_LINES_SHOWN:]
            )
            raise SupervisorError(
                f"the demo's node ended with exit code {self._node.returncode}: {words}",
                remedy="Run `supervisor check` to see what is wrong with this host.",
            )

    @property
    def metrics_url(self) -> str | None:
        """Where the node serves its metrics; None until it is up, or when it serves none."""
        listening = [node for node in self.client.reader.nodes() if node.listen]
        self._node_ids |= {node.node_id for node in listening}
        return f"http://{listening[0].listen}/metrics" if listening else None

    @property
    def pages_url(self) -> str | None:
        """The link that opens the pages; None until they are up, or when there are none."""
        said = self._web_said.read_text("utf-8") if self._web is not None else ""
        link: str | None = json.loads(said)["link"] if said.endswith("\n") else None
        return link

    def _stop_pages(self) -> None:
        if self._web is None:
            return
        self._web.terminate()
        try:
            self._web.wait(PAGES_GRACE_S)
        except subprocess.TimeoutExpired:
            self._web.kill()
            self._web.wait()

    def stop(self) -> bool:
        """Stop the pages, and the node in order; False if that one had to be killed.

        Ctrl-C meanwhile hastens it.
        """
        self._stop_pages()
        node = self._node
        if node is None:
            return True
        self._node_ids |= {one.node_id for one in self.client.reader.nodes()}
        deadline = self._clock.mono() + node_grace(self.settings).total
        node.terminate()
        while node.poll() is None and self._clock.mono() < deadline:
            try:
                self._clock.sleep(POLL_S)
            except KeyboardInterrupt:
                node.terminate()  # the second one tells the node to be quick
        if node.poll() is None:
            node.kill()
        code = node.wait()
        return code == 0 or (code == -signal.SIGTERM and not self._node_ids)  # while it booted

    # --- what is left -------------------------------------------------------------------------

    def leftovers(self) -> list[Leftover]:
        """Return every process that outlived the node, and end it.

        Looks for the node's mark in every environment and at all that became our own child.
        """
        deadline = self._clock.mono() + GONE_WITHIN_S
        while (found := self._survivors()) and self._clock.mono() < deadline:
            self._clock.sleep(POLL_S)
        left = [Leftover(pid, _command(pid)) for pid in sorted(found)]
        for one in left:
            tree.send_signal(one.pid, signal.SIGKILL)
        return left

    def _survivors(self) -> set[int]:
        below = {pid for pid in tree.descendants(os.getpid()) if tree.is_alive(pid)}
        return below | set(marked_processes(frozenset(self._node_ids)))

    def close(self) -> None:
        """Remove everything but the bundles, which the summary names."""
        self.client.close()
        kept = self.autopsies if self.autopsies.is_dir() and any(self.autopsies.iterdir()) else None
        if kept is None:
            shutil.rmtree(self.directory)
            return
        for path in self.directory.iterdir():
            if path.is_dir() and path != kept:
                shutil.rmtree(path)
            elif path != kept:
                path.unlink()


def _flags(given: Settings) -> dict[str, str]:
    return {
        one.name: show(getattr(given, one.name))
        for one in table()
        if one.name not in _OWN and given.source_of(one.name).startswith("flag ")
    }


def _die_with_parent() -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return "?"
