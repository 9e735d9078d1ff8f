"""Where workers are born: the zygotes of one node, and the births that are asked of them.

Secret kept here: which zygote gives which birth, how many are asked for at once, and what becomes
of those whose zygote dies or must not fork. Who keeps the workers hears of each birth once.
"""

from __future__ import annotations

import socket
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from supervisor.clock import Clock
from supervisor.errors import WireBroken
from supervisor.node import port, process
from supervisor.node.ear import Ear
from supervisor.node.lifeline import Lifeline
from supervisor.settings import Settings
from supervisor.worker import wire

#: An import that takes longer hangs: it is ended and refused, so that another reload can follow.
BOOT_S = 300.0
#: Births asked of a zygote and not yet answered: its line holds no more than a few hundred.
BIRTHS_AT_ONCE = 32


class Parent(Protocol):
    """Who keeps the workers."""

    def expect(self, worker_id: str) -> tuple[wire.WorkerConfig, Lifeline]:
        """Make ready what a worker is born with. Raises: OSError when too little is left for it."""

    def adopt(self, worker_id: str, pid: int) -> None:
        """Take in a worker that was born; one that was given up meanwhile is a stranger."""

    def mourn(self, worker_id: str, why: str) -> None:
        """Forget a worker that will not be born."""


@dataclass(slots=True)
class _Nest:
    """A zygote, or (`alone`) one exec'ed process that will itself be a worker."""

    generation: int
    program: subprocess.Popen[bytes]
    line: socket.socket
    alone: bool
    asked_at: float
    booted: bool = False
    used: bool = False
    retired: bool = False
    unborn: set[str] = field(default_factory=set)


class Nursery:
    """All zygotes of a node; `tell` hears of booted and refused apps and of lost zygotes."""

    def __init__(
        self,
        app: str,
        node_id: str,
        settings: Settings,
        clock: Clock,
        ear: Ear,
        tools: process.Tools,
        parent: Parent,
        tell: Callable[[port.PoolEvent], None],
    ) -> None:
        self._app = app
        #: What all that descends from our zygotes has in its environment.
        self._marks = {
            process.NODE_MARKER: node_id,
            "SUPERVISOR_STORE": settings.store,
            "SUPERVISOR_QUEUE": settings.queue,
        }
        self._alone = settings.spawn == "exec"
        self._clock = clock
        self._ear = ear
        self._tools = tools
        self._parent = parent
        self._tell = tell
        self._nests: list[_Nest] = []
        self._obstacles: tuple[str, ...] = ()
        self._announced = 0
        self._wanted: deque[tuple[str, int]] = deque()
        self._decoder: wire.Decoder[wire.FromZygote] = wire.Decoder(wire.FromZygote)

    def boot(self, generation: int) -> None:
        """Start importing the app anew, as this generation."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        program = process.start_zygote(
            self._app, theirs, self._marks, *(["--exec"] if self._alone else [])
        )
        theirs.close()
        nest = _Nest(generation, program, ours, self._alone, self._clock.mono())
        self._nests.append(nest)
        self._ear.listen(ours.fileno(), lambda: self._hear(nest))

    def want(self, worker_id: str, generation: int) -> None:
        """Ask for a worker; its parent hears how that ends."""
        self._wanted.append((worker_id, generation))
        self._serve()

    def unborn(self) -> int:
        """Return how many births are asked of a zygote and not answered."""
        return sum(len(nest.unborn) for nest in self._nests)

    def give_up(self, worker_id: str) -> None:
        """Wait for this birth no longer."""
        for nest in self._nests:
            nest.unborn.discard(worker_id)

    def pids(self) -> set[int]:
        """Return the pids of the zygotes."""
        return {nest.program.pid for nest in self._nests}

    def turn(self) -> None:
        """End imports that take too long."""
        now = self._clock.mono()
        for nest in [n for n in self._nests if not n.booted and now - n.asked_at > BOOT_S]:
            process.end_group(nest.program)
            why = f"importing the app took longer than {BOOT_S:g} s"
            self._refused(
                nest, wire.BootRefused(why, "Import it by hand and see where it waits.", "")
            )

    def shift(self, gap_s: float) -> None:
        """Move what imports may take by a time in which nobody could look."""
        for nest in self._nests:
            nest.asked_at += gap_s

    def close(self) -> None:
        """Let every zygote go."""
        for nest in list(self._nests):
            self._close(nest)

    def _serve(self) -> None:
        while self._wanted and self.unborn() < BIRTHS_AT_ONCE:
            worker_id, generation = self._wanted[0]
            nest = self._nest_for(generation)
            if nest is None:
                return
            self._wanted.popleft()
            self._ask(nest, worker_id)

    def _nest_for(self, generation: int) -> _Nest | None:
        mine = [nest for nest in self._nests if nest.generation == generation and not nest.used]
        if self._alone and len(mine) < len(self._wanted) + 1:
            self.boot(generation)  # one more than wanted: the next birth finds a warm spare
        return next((nest for nest in mine if nest.booted), None)

    def _ask(self, nest: _Nest, worker_id: str) -> None:
        try:
            config, line = self._parent.expect(worker_id)
        except OSError as exc:
            self._tell(port.BirthFailed(worker_id, f"too few descriptors left: {exc}"))
            return
        try:
            wire.send_with_fds(nest.line, wire.Birth(config), line.gifts())
        except OSError as exc:
            self._parent.mourn(worker_id, str(exc))
            return
        finally:
            line.given()
        if nest.alone:
            nest.used = True
            self._close(nest)
            self._parent.adopt(worker_id, nest.program.pid)
        else:
            nest.unborn.add(worker_id)

    def _hear(self, nest: _Nest) -> None:
        if nest not in self._nests:
            return  # closed by what was heard a moment ago
        try:
            data = nest.line.recv(wire.PACKET_MAX_BYTES)
            message = self._decoder.decode(data) if data else None
        except BlockingIOError:
            return
        except OSError:
            message = None  # reset: it died with births in its line that it had not read
        except WireBroken as exc:
            process.end_group(nest.program)
            why = f"the zygote's line broke: {exc}"
            message = None if nest.booted else wire.BootRefused(why, "", "")
        self._answered(nest, message)
        if nest.retired and not nest.unborn:
            self._close(nest)

    def _answered(self, nest: _Nest, message: wire.FromZygote | None) -> None:
        match message:
            case None:
                self._lose(nest)
            case wire.Booted():
                self._booted(nest, message)
            case wire.BootRefused():
                self._refused(nest, message)
            case wire.Born():
                nest.unborn.discard(message.worker_id)
                self._parent.adopt(message.worker_id, message.pid)
                self._serve()
            case wire.Stillborn():
                nest.unborn.discard(message.worker_id)
                self._parent.mourn(message.worker_id, message.error)

    def _booted(self, nest: _Nest, message: wire.Booted) -> None:
        if message.obstacles and not self._alone:
            self._alone = True  # forking from here would not be safe: exec every worker instead
            self._obstacles = message.obstacles
            self._close(nest)
            self.boot(nest.generation)
            return
        nest.booted = True
        for old in [n for n in self._nests if n.generation < nest.generation]:
            old.retired = True  # it still owes an answer to the births it was asked for
            if not old.unborn:
                self._close(old)
        if nest.generation > self._announced:  # every exec'ed worker imports the app: say it once
            self._announced = nest.generation
            self._tell(
                port.AppBooted(nest.generation, message.types, self._obstacles, message.warnings)
            )
        self._serve()

    def _refused(self, nest: _Nest, why: wire.BootRefused) -> None:
        """This app cannot be imported; an older nest, if there is one, goes on."""
        self._close(nest)
        self._tell(port.AppRefused(nest.generation, why.error, why.remedy))

    def _lose(self, nest: _Nest) -> None:
        code = nest.program.poll()
        if not nest.booted:
            why = f"importing the app ended the process (exit {code})"
            self._refused(
                nest, wire.BootRefused(why, "Import it by hand and see what ends it.", "")
            )
            return
        self._close(nest)
        for worker_id in nest.unborn:
            self._parent.mourn(worker_id, "the zygote died")
        if not nest.retired:
            self._tell(port.ZygoteLost(f"exit {code}"))

    def _close(self, nest: _Nest) -> None:
        if nest in self._nests:
            self._nests.remove(nest)
            self._ear.forget(nest.line.fileno())
            nest.line.close()  # a zygote leaves when its line closes
            if not nest.used:
                self._tools.adopt(nest.program)
