"""The crash table, point by point: killed at that very instruction, started again, and judged.

Every point of programs/failpoints.py is one test on a file; those where something becomes durable,
or which many nodes alone have, are one on PostgreSQL with Redis, too. A node (or a submitter, or an
autopsy) is killed there amid a handful of tasks that return, fail, retry, crash, overrun, are
canceled, keep a checkpoint and submit others. A clean node follows; then nothing may be lost, ended
twice or left.

Several scenes play at once, since most of each is waiting: so this module has its own guard.
Not covered: the power cut of the machine (only processes are killed).
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from harness import LONGER_LEASE, NodeUnderTest, eventually
from invariants import Account
from stores import FILE, SERVER_AND_REDIS, Database, File, Place
from storm import APP, SETTINGS, allowed_ends, live, nobody_else, retries_of

from autopsy.bundle import read_bundle
from autopsy.retention import list_bundles
from supervisor.client import Handle
from supervisor.node.scribe import RUNG_BY_THEN
from supervisor.store import open_store
from tests.programs.failpoints import FIRED, POINTS, Moment, Victim, armed

AT_ONCE = 3
#: Three scenes at once, each with a node or two, on a machine that may do other things as well.
PATIENCE_S = 80.0
KINDS = ("ok", "flaky", "crash", "waits", "resumes", "begets", "asks")
#: Only where they matter: evidence is dear.
FORCED = ("hangs", "stubborn", "overrun", "fail", "aok")
FORCED_ROWS = ("verdict", "terminate", "finish", "take over", "stop")
CANCELED = ("waits", "hangs")
QUICK: Mapping[str, object] = {**SETTINGS, "drain_grace": 0.2, "retry_base": 0.05}

#: Only a node that shares its store comes to these.
AMONG_MANY = (
    "submit.called", "publish.called",
    *(f"{verb}.{word}" for verb in ("renew", "lead") for word in ("written", "committed")),
)  # fmt: skip
#: Of each row of the crash table what is in the open transaction, what after its commit, and the
#: moments between two of them.
ON_SERVERS = (
    *(
        f"{verb}.{word}"
        for verb in (
            "submit", "publish", "claim", "started", "checkpoint", "bundle", "finish",
            "finish.retry", "finish.children", "node.born", "sweep", "stop.ended",
        )
        for word in ("written", "committed")
    ),
    *("assign.sent", "bundle.partial", "bundle.renamed", "kill.below", "kill.done"),
    *AMONG_MANY,
)  # fmt: skip
SCENES = (
    *((FILE, name) for name in POINTS if name not in AMONG_MANY),
    *((SERVER_AND_REDIS, name) for name in ON_SERVERS),
)

_CHILDREN_OF = (
    "SELECT count(*) FROM tasks AS child JOIN tasks AS parent ON parent.task_id = child.parent_id"
    " WHERE parent.type = "
)
_ENDED = "SELECT count(*) FROM attempts WHERE outcome IS NOT NULL"
_BECAME = "SELECT count(*) FROM audit_log WHERE from_state = 'RUNNING' AND "
#: What a verb of the ledger writes: nothing of it is there before its commit, all of it after.
DURABLE: Mapping[str, str] = {
    "child": _CHILDREN_OF + "'asks'",
    "publish": "SELECT count(*) = 0 FROM outbox",
    "claim": "SELECT count(*) FROM attempts",
    "started": "SELECT count(*) FROM attempts WHERE started_at IS NOT NULL AND outcome IS NULL",
    # its ending may have been written in the same transaction
    "started.committed": "SELECT count(*) FROM attempts WHERE started_at IS NOT NULL",
    "checkpoint": "SELECT count(*) FROM checkpoints",
    "worker": "SELECT count(*) FROM workers",
    "bundle": "SELECT count(*) FROM autopsies",
    "finish": _ENDED,
    "finish.children": _CHILDREN_OF + "'begets'",
    "finish.retry": _BECAME + "to_state = 'FAILED'",
    "finish.timeout": _BECAME + "to_state = 'TIMEOUT'",
    "finish.cancel": _BECAME + "to_state = 'CANCELED'",
    "node.ended": "SELECT count(*) FROM nodes WHERE ended_at IS NOT NULL",
    "node.born": "SELECT count(*) > 1 FROM nodes",
    "sweep": _BECAME + "note = 'the node that ran it died'",
    "stop.requeue": _BECAME + "reason = 'shutdown'",
    "stop.ended": "SELECT count(*) FROM nodes WHERE ended_at IS NOT NULL",
}


#: How an attempt ends whose worker dies at a point, where the environment tells which one it was.
OF_THE_DEAD: Mapping[str, str] = {
    **dict.fromkeys(
        [
            f"child: {name}"
            for name in (
                "body.begun", "checkpoint.framed", "child.framed", "body.done", "report.framed",
            )
        ],
        "killed_by_signal",
    ),
    "child: report.sent": "returned",
}  # fmt: skip


def workers_of(node: NodeUnderTest) -> list[int]:
    """Return the zygote and the workers that live, as their command lines say."""
    found = []
    for pid in node.processes():
        with suppress(OSError):
            if b"supervisor.worker.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


class Scene:
    """One store, what was submitted to it, and the nodes that it has had."""

    def __init__(self, node: NodeUnderTest, name: str) -> None:
        self.node = node
        self.name = name
        self.point = POINTS[name]
        self.handles: dict[str, Handle] = {}
        self.canceled: set[str] = set()
        self.wrong: list[str] = []

    @property
    def runs(self) -> Path:
        return self.node.root / "runs"

    def play(self) -> None:
        match self.point.victim:
            case Victim.SUBMITTER:
                self._submitter_dies()
            case Victim.WORKER:
                self._submit_all()
                self._child_dies()
            case _:
                self._submit_all()
                self._node_dies()
        self.look_at_what_is_durable()
        self.recovers()
        self.judge()

    def _submit_all(self) -> None:
        if self.point.victim is Victim.STOPPING:  # something must run for longer than the grace
            self._submit("ok", 1.5)
        for kind in KINDS + (FORCED if self.point.row in FORCED_ROWS else ()):
            self._submit(kind, 0.0)
        if self.point.row == "relay":  # what was rung a moment ago is left alone
            time.sleep(RUNG_BY_THEN.total_seconds() + 0.1)

    def _submit(self, kind: str, s: float) -> None:
        spec = {**retries_of(kind), "priority": 5}
        handle = self.node.submit(kind, spec=spec, path=str(self.runs), s=s)
        self.handles[f"{kind} {s}"] = handle

    def _node_dies(self) -> None:
        """Start a node that dies at the point."""
        node, victim = self.node, self.point.victim
        if victim is Victim.SUCCESSOR:
            node.start(wait=False)
            eventually(self.is_at_work, PATIENCE_S, "it is at work")
            node.kill()
        node.prefix = armed(self.name)
        node.start(wait=False)
        if victim is Victim.STOPPING:
            eventually(self.is_at_work, PATIENCE_S, "it is at work")
            node.signal(signal.SIGTERM)
        eventually(self.is_dead, PATIENCE_S, f"killed at {self.name}")
        self._require_fired(node.wait_exit(1))
        eventually(lambda: not workers_of(node), 1, "no worker outlives the node by a second")

    def _child_dies(self) -> None:
        """A worker or the zygote dies at the point; the node has to see to it."""
        self.node.app_name = "tests.programs.tasks_mortal:app"
        self.node.env["FAILPOINT"] = self.name
        self.node.start(wait=False)
        fired = self.node.root / FIRED
        eventually(lambda: self.is_over() and fired.exists(), PATIENCE_S, self.name)

    def _submitter_dies(self) -> None:
        """A program that submits three tasks dies at the point; it is run again and lives."""
        self.node.start(wait=False)
        specs = [
            {"type": "ok", "params": {"path": str(self.runs)}, "dedup_key": f"key {n}"}
            for n in range(3)
        ]
        (self.node.root / "specs.json").write_text(json.dumps(specs))
        program = [sys.executable, "-m", "supervisor.cli", "submit", "specs.json", "--json"]
        code = self._run(armed(self.name, *program)).returncode
        self._require_fired(code)
        answer = self._run(program)
        assert answer.returncode == 0, answer.stderr

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.node.root, env=self.node.env, timeout=30,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def _require_fired(self, code: int) -> None:
        assert code == -signal.SIGKILL, self.node.log_text()
        assert (self.node.root / FIRED).read_text().startswith(f"{self.name} ")

    def is_at_work(self) -> bool:
        return self.handles["hangs 0.0"].view().started_at is not None

    def is_dead(self) -> bool:
        """Cancel what runs meanwhile; a successor is to find it as its former node left it."""
        if self.node.running and self.point.victim is not Victim.SUCCESSOR:
            self.cancel_what_runs()
        return not self.node.running

    def cancel_what_runs(self) -> None:
        time.sleep(0.05)  # looking takes time that the other scenes need
        for kind in CANCELED:
            handle = self.handles.get(f"{kind} 0.0")
            if handle is None or kind in self.canceled or handle.view().started_at is None:
                continue
            handle.cancel(by="anna", reason="enough")
            self.canceled.add(kind)

    def look_at_what_is_durable(self) -> None:
        """A transaction is whole: not one row before its commit, and all of them after it."""
        verb, _, word = self.name.rpartition(".")
        if word not in ("written", "committed") or verb not in DURABLE:
            return
        query = DURABLE.get(self.name, DURABLE[verb])
        ((count,),) = self.node.query(query)
        if bool(count) != (self.point.moment is Moment.COMMITTED):
            self.wrong.append(f"killed at {self.name}: {count} of {query}")

    def recovers(self) -> None:
        """Start a clean node, if there is none, and let everything come to its end."""
        if not self.node.running:
            self.node.prefix = ()
            self.node.start(wait=False)
        eventually(self.is_over, PATIENCE_S, "all tasks have ended")
        eventually(lambda: len(self.node.worker_pids()) == 4, PATIENCE_S, "all workers are there")
        nobody_else(self.node, 15)
        assert self.node.stop() == 0, self.node.log_text()

    def is_over(self) -> bool:
        assert self.node.running, self.node.log_text()
        self.cancel_what_runs()
        return live(self.node) == 0

    def judge(self) -> None:
        node = self.node
        expected = {
            handle.task_id: allowed_ends(name.split()[0], canceled=name.split()[0] in CANCELED)
            for name, handle in self.handles.items()
        }
        if self.point.victim is Victim.SUBMITTER:  # it could not tell us the ids
            rows = node.query("SELECT task_id FROM tasks WHERE dedup_key LIKE 'key %'")
            expected = {task_id: allowed_ends("ok", canceled=False) for (task_id,) in rows}
            if len(expected) != 3:
                self.wrong.append(f"three were submitted (twice), {len(expected)} are there")
        self.wrong += Account(node.query, expected, self.runs).violations()
        self.wrong += self._families() + self._bundles()
        if self.name in OF_THE_DEAD:
            self.wrong += self._the_dead_child()
        for event in ("transition.refused", "loop.failed"):
            self.wrong += [f"{line}" for line in node.events(event)]

    def _the_dead_child(self) -> list[str]:
        """The attempt in whose worker it happened ended for the reason that is the true one."""
        _, task_id, attempt = (self.node.root / FIRED).read_text().replace(":", " ").rsplit(" ", 2)
        (reason,) = self.node.query(
            f"SELECT reason FROM attempts WHERE task_id = '{task_id}' AND attempt = {attempt}"
        )
        wanted = OF_THE_DEAD[self.name]
        return [] if reason == (wanted,) else [f"the dead worker's attempt: {reason}, not {wanted}"]

    def _families(self) -> list[str]:
        """A child belongs to an ending, or is protected by its key: one each, whatever happened."""
        parents = [self.handles[f"{k} 0.0"].task_id for k in ("begets", "asks") if self.handles]
        found = Counter(
            parent
            for (parent,) in self.node.query(
                "SELECT parent_id FROM tasks WHERE parent_id IS NOT NULL"
            )
        )
        return [] if found == dict.fromkeys(parents, 1) else [f"children: {found} of {parents}"]

    def _bundles(self) -> list[str]:
        """Every file is whole or called unfinished, and people are shown what no row names."""
        bundles = list_bundles(self.node.root / "autopsies")
        for one in bundles:
            if one.complete:
                read_bundle(one.path)
        half = [one.path.name for one in bundles if not one.complete]
        cut_short = self.point.row in ("verdict", "terminate", "take over")
        wanted = self.name == "bundle.partial"
        wrong = [] if bool(half) == wanted or (half and cut_short) else [f"half-made: {half}"]
        if self.point.row == "verdict":
            shown = self.node.cli_json("autopsy", "list")
            listed = {x["path"] for x in shown["autopsies"] + shown["unrecorded"]}
            wrong += [f"not listed: {one.path}" for one in bundles if str(one.path) not in listed]
            if self.name in ("bundle.partial", "bundle.renamed") and not shown["unrecorded"]:
                wrong.append("its file is recorded, or is not there")
        return wrong


# -- many at once

Judged = Callable[[str, str], list[str]]


@pytest.fixture(autouse=True)
def leave_nothing_behind() -> None:
    """Instead of the guard of conftest: other scenes play beside the one that is judged."""


@pytest.fixture(scope="module")
def judged(
    nursery: Any, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judged]:
    """Play the scenes of all the points that were selected, a few at a time."""
    folder = tmp_path_factory.mktemp("store")
    places = _Places(nursery, folder)
    selected = [
        (item.callspec.params["store"], item.callspec.params["name"])
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    with ThreadPoolExecutor(AT_ONCE) as stage:
        scenes: dict[tuple[str, str], Future[list[str]]] = {}
        for number, (store, name) in enumerate(selected):
            place = places.make(store, folder / str(number))
            scenes[store, name] = stage.submit(_play, nursery, place, name)
        yield lambda store, name: scenes[store, name].result()
        for scene in scenes.values():
            scene.cancel()
    places.close()


class _Places:
    """Makes stores with tables, on the main thread: servers end with the thread they come from."""

    def __init__(self, nursery: Any, folder: Path) -> None:
        self._nursery = nursery
        self._file = folder / "empty.db"
        open_store(f"sqlite:///{self._file}", create=True).close()
        self._database: Database | None = None

    def make(self, store: str, folder: Path) -> Place:
        folder.mkdir()
        if store != FILE:
            return self._empty_database(store, folder).copy()
        place: File = self._nursery.place(store, folder)
        shutil.copy(self._file, place.path)
        return place

    def _empty_database(self, store: str, folder: Path) -> Database:
        if self._database is None:
            self._database = self._nursery.place(store, folder)
            open_store(self._database.url, create=True).close()
        return self._database

    def close(self) -> None:
        if self._database is not None:
            self._database.remove()


def _play(nursery: Any, place: Place, name: str) -> list[str]:
    leased = {} if isinstance(place, File) else LONGER_LEASE
    node = nursery.make(APP, {**QUICK, **leased}, place=place)
    scene = Scene(node, name)
    try:
        scene.play()
    finally:
        left = nursery.close(node)
    return [*scene.wrong, *(f"left behind: {one}" for one in left)]


@pytest.mark.parametrize(("store", "name"), SCENES)
def test_killed_at(judged: Judged, store: str, name: str) -> None:
    assert judged(store, name) == []
