"""Moving to cold files, on every store: what goes, what stays, what a killed run leaves."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ledger_scene import NODE, POLICY, START, Scene

from supervisor.errors import ArchiveBroken, DependencyAway, Refused
from supervisor.model.outcome import Outcome, raised, returned
from supervisor.model.spec import NO_SOFT_TIMEOUT
from supervisor.model.states import State
from supervisor.store import archive as archive_module
from supervisor.store.archive import Archive, Moved, Wanted
from supervisor.store.archive_file import ColdFile
from supervisor.store.archive_search import ArchiveReader, ColdFilter
from supervisor.store.record import AutopsyRecord, Retired
from supervisor.store.schema import (
    attempt_logs,
    attempts,
    audit_log,
    autopsies,
    checkpoints,
    outbox,
    tasks,
)

OF_A_TASK = (tasks, attempts, attempt_logs, checkpoints, audit_log, autopsies, outbox)
FAILURE = raised("ValueError", "bad “quotes”", "tb")
NO_RETRIES = replace(POLICY, max_retries=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cold"


def success(result: object = None) -> Outcome:
    return returned(json.dumps(result))


def wanted(scene: Scene, days: float = 30, **more: Any) -> Wanted:
    before = scene.now - timedelta(days=days)
    return Wanted(now=scene.now, ended_before=before, audit_before=before, **more)


def moved(scene: Scene, folder: Path, days: float = 30, **more: Any) -> Moved:
    return Archive(scene.ledger, folder, by="anna").move(wanted(scene, days, **more))


def month_later(scene: Scene) -> None:
    """Let a month pass; the newest audit row, which stays, is none of a task."""
    scene.pass_time(31 * 86400)
    with scene.ledger.transaction() as tx:
        tx.note(None, None, reason="clock_set", text="later", now=scene.now)


def well_ended(scene: Scene, **fields: Any) -> str:
    claim = scene.running(**fields)
    scene.finish(claim, success())
    return claim.task_id


def failed(scene: Scene) -> str:
    claim = scene.running()
    scene.finish(claim, FAILURE, policy=NO_RETRIES)
    return claim.task_id


def a_full_task(scene: Scene) -> str:
    """Run a task that has something in every table: a retry, log, checkpoint, bundle, cancel."""
    claim = scene.running(
        tags=("a", "ü"), params_json='{"n": 1}', soft_timeout=NO_SOFT_TIMEOUT, submitted_by="anna"
    )
    with scene.ledger.transaction() as tx:
        tx.checkpoint(claim.task_id, claim.attempt, '{"at": 5}', scene.now)
        tx.record_autopsy(
            AutopsyRecord(
                autopsy_id="a1",
                task_id=claim.task_id,
                attempt=1,
                node_id=NODE,
                pid=5,
                path="/bundles/a1.zip",
                status="captured",
                verdict="stalled",
                diagnosis="unknown",
                diagnosis_json=None,
                created_at=scene.now,
                bytes=10,
                ms=20,
            )
        )
    scene.finish(claim, FAILURE, log_tail="line\n", usage={"cpu_s": 0.5})
    scene.pass_time(60)
    (again,) = scene.claim()
    scene.finish(again, success({"sum": 3}), started_at=scene.now)
    return claim.task_id


def everything(scene: Scene, task_id: str) -> dict[str, Any]:
    reader = scene.reader
    return {
        "view": reader.task(task_id),
        "attempts": tuple(reader.attempts(task_id)),
        "history": tuple(reader.history(task_id)),
        "autopsies": tuple(reader.autopsies(task_id)),
        "checkpoint": reader.checkpoint(task_id),
        "logs": {1: reader.log(task_id, 1)},
    }


def test_all_of_a_task_goes_and_is_read_as_it_was(scene: Scene, folder: Path) -> None:
    task_id = a_full_task(scene)
    well_ended(scene)  # its rows are the newest
    before = everything(scene, task_id)
    month_later(scene)
    done = moved(scene, folder)
    assert (done.tasks, done.deleted_tasks, done.changed_meanwhile) == (2, 2, 0)
    for table in OF_A_TASK:
        assert [row for row in scene.rows(table, "task_id") if row[0] == task_id] == []
    cold = ArchiveReader(folder).task(task_id)
    assert cold is not None
    assert {name: getattr(cold, name) for name in before} == before
    assert [str(file) for file in cold.files] == done.files


def test_a_file_is_json_lines_for_every_tool(scene: Scene, folder: Path) -> None:
    task_id = a_full_task(scene)
    month_later(scene)
    (file,) = moved(scene, folder).files
    lines = gzip.decompress(Path(file).read_bytes()).decode().splitlines()
    record, head, index = map(json.loads, lines)
    assert record["task"]["task_id"] == task_id
    assert record["task"]["tags"] == '["a", "ü"]'
    assert record["task"]["soft_timeout"] == "inf"
    assert [row["to_state"] for row in record["audit"] if "to_state" in row][-1] == "SUCCESS"
    assert (head["kind"], head["records"], head["tasks"]) == ("head", 1, 1)
    assert index["entries"][0][0] == task_id
    assert {path.name for path in folder.iterdir()} == {Path(file).name, "archive.lock"}


def test_what_is_alive_young_dead_or_held_stays(scene: Scene, folder: Path) -> None:
    dead, canceled = failed(scene), scene.submit()
    scene.cancel(canceled)
    held = well_ended(scene, dedup_key="held")
    over = well_ended(scene, dedup_key="over", dedup_ttl=3600.0)
    still = well_ended(scene, dedup_key="still", dedup_ttl=40 * 86400.0)
    running = scene.running().task_id
    pending = scene.submit()
    scene.pass_time(31 * 86400)
    (claim,) = [one for one in scene.claim(3) if one.task_id == pending]
    scene.finish(claim, success())
    stay = {dead, held, still, running, pending}
    plan = Archive(scene.ledger, folder, by="anna").plan(wanted(scene))
    assert (plan.tasks, plan.kept_dead_letters, plan.kept_keys) == (2, 1, 2)
    assert not folder.exists()
    done = moved(scene, folder)
    assert (done.tasks, done.kept_dead_letters, done.kept_keys) == (2, 1, 2)
    assert done.audit_rows == plan.audit_rows
    assert {row[0] for row in scene.rows(tasks, "task_id")} == stay
    found = ArchiveReader(folder)
    assert {line.task_id for line in found.search(ColdFilter()) if line.kind == "task"} == {
        over,
        canceled,
    }
    more = moved(scene, folder, dead_letters=True, held_keys=True)
    assert more.tasks == 2
    assert {row[0] for row in scene.rows(tasks, "task_id")} == {still, running, pending}


def test_old_rows_of_a_dead_letter_go_and_its_trail_is_still_one(
    scene: Scene, folder: Path
) -> None:
    task_id = failed(scene)
    with scene.ledger.transaction() as tx:
        tx.pause("other", None, by="anna", reason="repair", now=scene.now)
    scene.pass_time(31 * 86400)
    alive = scene.submit()
    trail = scene.reader.history(task_id)
    done = moved(scene, folder)
    assert (done.tasks, done.audit_rows) == (0, 4)
    assert scene.reader.history(task_id) == []
    assert scene.state(task_id) is State.FAILED
    archived = ArchiveReader(folder)
    assert archived.task(task_id) is None
    lines, files = archived.history(task_id, scene.reader.history(task_id))
    assert (lines, [str(file) for file in files]) == (trail, done.files)
    (of_queue,) = archived.search(ColdFilter(text="REPAIR"))
    assert (of_queue.task_id, of_queue.kind) == (None, "audit")
    assert [step[3] for step in scene.trail(alive)] == ["submitted"]
    scene.rerun(task_id)
    scene.finish(scene.claim()[0], success())
    month_later(scene)
    moved(scene, folder)
    whole = archived.task(task_id)
    assert whole is not None
    moves = [line.to_state for line in whole.history if line.to_state]
    assert moves == ["PENDING", "RUNNING", "FAILED", "PENDING", "RUNNING", "SUCCESS"]
    assert len(whole.files) == 2


def test_the_newest_audit_row_stays(scene: Scene, folder: Path) -> None:
    task_id = well_ended(scene)
    scene.pass_time(31 * 86400)
    assert moved(scene, folder).files == []
    assert scene.rows(tasks, "task_id") == [(task_id,)]
    month_later(scene)
    assert moved(scene, folder).tasks == 1


def test_the_ledger_itself_keeps_the_newest_audit_row(scene: Scene) -> None:
    task_id = well_ended(scene)
    view, trail = scene.reader.task(task_id), scene.reader.history(task_id)
    assert view is not None
    ids = tuple(line.audit_id for line in trail)
    copy = Retired(
        task_id=task_id,
        state=view.state,
        attempt=view.attempt,
        ended_at=view.ended_at,
        audit_ids=ids,
        autopsy_ids=(),
    )
    with scene.ledger.transaction() as tx:
        assert tx.forget([copy]) == []
        tx.forget_audit(ids)
    assert [line.audit_id for line in scene.reader.history(task_id)] == [ids[-1]]


def test_a_task_that_ran_again_meanwhile_stays(
    scene: Scene, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = failed(scene), failed(scene)
    month_later(scene)
    real = ColdFile.verify

    def verify(file: ColdFile) -> Any:
        scene.rerun(first)
        return real(file)

    monkeypatch.setattr(ColdFile, "verify", verify)
    done = moved(scene, folder, dead_letters=True)
    assert (done.tasks, done.deleted_tasks, done.changed_meanwhile) == (2, 1, 1)
    assert scene.state(first) is State.PENDING
    assert len(scene.reader.history(first)) == 4
    assert scene.reader.task(second) is None


def test_a_note_written_after_the_copy_is_not_deleted(
    scene: Scene, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = well_ended(scene)
    month_later(scene)
    real = ColdFile.verify

    def verify(file: ColdFile) -> Any:
        with scene.ledger.transaction() as tx:
            tx.note(task_id, 1, reason="late_result", text="too late", now=scene.now)
        return real(file)

    monkeypatch.setattr(ColdFile, "verify", verify)
    moved(scene, folder)
    (late,) = scene.reader.history(task_id)
    lines, _ = ArchiveReader(folder).history(task_id, [late])
    assert [line.reason for line in lines] == ["submitted", "claimed", "returned", "late_result"]


class Killed(BaseException):
    """What stands for a kill: nothing catches it."""


def _kill_after(calls: int, real: Callable[..., Any]) -> Callable[..., Any]:
    left = [calls]

    def call(*args: Any, **kwargs: Any) -> Any:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return real(*args, **kwargs)

    return call


@pytest.mark.parametrize(
    ("name", "calls", "leaves"),
    [
        ("_settle", 0, set()),
        ("_named", 0, set()),
        ("_empty_store_of", 0, {".moving.jsonl.gz"}),
        ("_forget", 1, {".moving.jsonl.gz"}),
        ("_named", 1, {".moving.jsonl.gz"}),
    ],
)
def test_a_run_that_is_killed_loses_and_doubles_nothing(
    scene: Scene,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    calls: int,
    leaves: set[str],
) -> None:
    ids = {well_ended(scene) for _ in range(50)}
    month_later(scene)
    archived = ArchiveReader(folder)
    monkeypatch.setattr(archive_module, "BATCH_MAX", 20)
    with monkeypatch.context() as patched:
        patched.setattr(Archive, name, _kill_after(calls, getattr(Archive, name)))
        with pytest.raises(Killed):
            moved(scene, folder)
    suffixes = {path.name.partition(".")[2] for path in folder.glob("*.gz")}
    assert {"." + suffix for suffix in suffixes} == leaves
    for task_id in ids:
        assert scene.reader.task(task_id) or archived.task(task_id)
    done = moved(scene, folder)
    assert len(done.finished_files) == len(leaves)
    assert [path.name for path in folder.glob("*.moving*")] == []
    assert not ids & {row[0] for row in scene.rows(tasks, "task_id")}
    found = [line.task_id for line in archived.search(ColdFilter(limit=200))]
    assert sorted(found) == sorted(ids)
    records = [entry for path in folder.glob("*.gz") for entry in ColdFile(path).entries()]
    assert len(records) == len(ids)


def test_a_file_that_does_not_read_back_deletes_nothing(
    scene: Scene, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = well_ended(scene)
    month_later(scene)
    real = archive_module.ColdWriter.finish

    def finish(writer: Any, now: Any) -> None:
        real(writer, now)
        content = bytearray(writer.path.read_bytes())
        content[40] ^= 1
        writer.path.write_bytes(content)

    monkeypatch.setattr(archive_module.ColdWriter, "finish", finish)
    with pytest.raises(ArchiveBroken):
        moved(scene, folder)
    assert scene.state(task_id) is State.SUCCESS
    assert [path.name for path in folder.iterdir()] == ["archive.lock"]


def test_a_limit_ends_a_run_and_the_next_goes_on(
    scene: Scene, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "LOAD", 2)
    ids = [well_ended(scene) for _ in range(5)]
    month_later(scene)
    done = moved(scene, folder, tasks_max=3)
    assert (done.tasks, done.limit_reached) == (3, True)
    rest = moved(scene, folder, tasks_max=3)
    assert (rest.tasks, rest.limit_reached) == (2, False)
    assert {line.task_id for line in ArchiveReader(folder).search(ColdFilter())} == set(ids)


def test_a_full_file_is_followed_by_another(
    scene: Scene, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "FILE_RECORDS", 2)
    ids = [well_ended(scene) for _ in range(5)]
    month_later(scene)
    assert len(moved(scene, folder).files) == 3
    archived = ArchiveReader(folder)
    assert all(archived.task(task_id) for task_id in ids)


def test_only_one_run_at_a_time(scene: Scene, folder: Path) -> None:
    well_ended(scene)
    month_later(scene)
    refused = []

    def told(_: Moved) -> None:
        with pytest.raises(Refused, match="another `supervisor archive`"):
            moved(scene, folder)
        refused.append(True)

    Archive(scene.ledger, folder, by="anna").move(wanted(scene), told)
    assert refused


def test_a_place_that_cannot_be_written_is_told(scene: Scene, folder: Path) -> None:
    folder.write_text("")
    with pytest.raises(DependencyAway, match="cannot write to the archive"):
        moved(scene, folder / "below")


def test_search_by_part_type_state_time_and_text(scene: Scene, folder: Path) -> None:
    first = well_ended(scene, params_json='{"name": "Straße \\"9\\""}')
    scene.pass_time(86400)
    second = well_ended(scene, type="part")
    third = failed(scene)
    month_later(scene)
    moved(scene, folder, dead_letters=True)
    archived = ArchiveReader(folder)

    def found(**query: Any) -> list[str | None]:
        return [line.task_id for line in archived.search(ColdFilter(**query))]

    assert found() == [third, second, first]
    assert found(limit=1) == [third]
    assert found(part=first[-8:]) == [first]
    assert found(part=first[:37]) == [first]
    assert found(types=("part",)) == [second]
    assert found(states=(State.FAILED,)) == [third]
    assert found(text="STRASSE") == [first]
    assert found(text="bad “quotes”") == [third]
    assert found(since=START + timedelta(hours=1)) == [third, second]
    assert found(until=START + timedelta(hours=1)) == [first]
    assert found(text="nothing like it") == []
    assert archived.ids_beginning(first[5:37], 5) == [first]
    assert archived.ids_ending(first[-6:], 5) == [first]
    assert archived.task("task_" + "0" * 32) is None
    assert ArchiveReader(folder / "none").search(ColdFilter()) == []


def test_a_damaged_file_is_named_and_the_others_are_read(scene: Scene, folder: Path) -> None:
    first = well_ended(scene)
    month_later(scene)
    moved(scene, folder)
    second = well_ended(scene)
    month_later(scene)
    (file,) = moved(scene, folder).files
    cut = Path(file).read_bytes()[:-10]
    Path(file).write_bytes(cut)
    archived = ArchiveReader(folder)
    assert archived.task(first) is not None
    assert archived.task(second) is None
    (damage,) = archived.damaged
    assert damage.facts["path"] == file
    assert "its end is missing" in damage.message
