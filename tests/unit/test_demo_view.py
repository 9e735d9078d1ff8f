"""The demo's page keeps names and states whole at any width; the README counts its tasks right."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from supervisor.demo import view, words
from supervisor.demo.cast import CAST, Part, children, expected_counts
from supervisor.demo.scene import Ending, Scene
from supervisor.demo.stage import Stage
from supervisor.model.states import State
from supervisor.store import AutopsyRecord
from supervisor.store.view import TaskLine

START = datetime(2026, 1, 1, tzinfo=UTC)
README = Path(__file__).resolve().parents[2] / "README.md"


def line(part: Part, number: int, state: State) -> TaskLine:
    return TaskLine(
        task_id=f"{part.name}-{number}", type=part.type, queue="default", priority=5, state=state,
        reason="returned", run_after=START, created_at=START, ended_at=START + timedelta(seconds=2),
        attempt=2, retry_count=1, crash_count=1, quarantined=False, dedup_key=None,
        submitted_by=None, tags=(), mark=None, node_id="n", worker_id="w", claimed_at=START,
        started_at=START, error_type="ValueError", error="could not convert string to float: 'x'",
        verdict=None,
    )  # fmt: skip


def autopsy(part: Part, diagnosis: str | None) -> AutopsyRecord:
    return AutopsyRecord(
        autopsy_id=part.name, task_id=f"{part.name}-0", attempt=1, node_id="n", pid=1,
        verdict="killed_by_signal", status="captured", diagnosis=diagnosis, diagnosis_json=None,
        path=f"/b/{part.name}.zip", bytes=1, ms=300, created_at=START,
    )  # fmt: skip


def at_the_end() -> Scene:
    of_part = {
        part.name: tuple(
            # parts of several tasks stand in two states: the widest that the column ever gets
            line(part, n, State.PENDING if n % 2 else part.ends)
            for n in range(part.tasks)
        )
        for part in CAST
    }
    parts = {part.name: part for part in CAST}
    return Scene(
        age_s=20.0, at=START, of_part=of_part, cued={},
        usage={"leaking-0": {"leaked_fds": 40.0}},
        autopsies=(
            autopsy(parts["killed worker"], None),
            autopsy(parts["busy"], "busy.python"),
            autopsy(parts["deadlocked"], "deadlock.in_process"),
        ),
        counts=expected_counts(), metrics_url=None,
    )  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("short", [True, False])
def test_names_and_states_are_whole_at_any_width(width: int, short: bool) -> None:
    console = Console(width=width, highlight=False)
    with console.capture() as got:
        console.print(view.parts(at_the_end(), width, short=short))
    lines = got.get().splitlines()
    assert max(map(len, lines)) <= width
    assert ("WHAT IT SHOWS" in lines[0]) == (width >= 120)
    for part in CAST:
        name = part.name if part.tasks == 1 else f"{part.name} x{part.tasks}"
        (row,) = [one for one in lines if one.startswith(f"{name} ")]
        half = part.tasks // 2
        state = f"{half} PEND {part.tasks - half} {part.ends[:4]}" if half else str(part.ends)
        assert row[15:].lstrip().startswith(f"{state} ")
    assert len(lines) == len(CAST) + 1 or not short
    if not short:
        told = re.sub(r"\s+", " ", got.get())
        if width == 120:
            assert "ValueError: could not convert string to float: 'x'" in told


def test_the_bundle_to_read_is_that_of_the_deadlock() -> None:
    scene = at_the_end()
    assert words.most_telling(scene).path == "/b/deadlocked.zip"
    without = replace(scene, autopsies=scene.autopsies[:2])
    assert words.most_telling(without).path == "/b/busy.zip"


def test_the_readme_counts_the_tasks_as_the_cast_has_them() -> None:
    number = sum(part.tasks for part in CAST) + children()
    assert f"gives it {number} tasks." in README.read_text("utf-8")


def test_the_readme_shows_the_table_that_is_printed() -> None:
    shown = README.read_text("utf-8").split("TASK           STATE     WHAT HAPPENED\n")[1]
    rows = [re.split(r" {2,}", row) for row in shown.split("```")[0].splitlines()]
    assert [row[:2] for row in rows] == [
        [part.name if part.tasks == 1 else f"{part.name} x{part.tasks}", str(part.ends)]
        for part in CAST
    ]
    for part, (_, _, story) in zip(CAST, rows, strict=True):
        found = re.search(r": ([a-z_]+\.[a-z_]+)$", story)
        assert (found[1] if found else None) in (part.diagnoses or {None}), part.name


def test_a_pipe_gets_all_of_the_evidence_and_whole_paths(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    causes = [{"code": "busy.python", "confidence": 0.5, "evidence": ["w" + " word" * 30 + " end"]}]
    scene = at_the_end()
    long = replace(scene.autopsies[1], diagnosis_json=json.dumps(causes), path=f"/{'b' * 70}/x.zip")
    page = view.LinePage(cast("Stage", None), None)  # its summary asks nothing of the stage
    page.sum_up(Ending(replace(scene, autopsies=(long,)), (), True, 20.0))
    told = capsys.readouterr().out
    assert f"read it  autopsy show {long.path}\n" in told
    assert f"{'word ' * 30}end" in re.sub(r"\s+", " ", told)
