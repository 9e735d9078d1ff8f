"""The generated pages of docs/ are those that the tables in the source make now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import click
import pytest

from supervisor.cli.group import build
from supervisor.model.states import REASON_MEANINGS, Reason
from supervisor.settings import table
from supervisor.telemetry.catalog import CATALOG
from supervisor.telemetry.events import EVENTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs", ROOT / "tools" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = (
    "settings.md", "cli.md", "events.md", "metrics.md", "diagnoses.md", "reasons.md", "alerts.md",
    "api.md",
    "queries.md",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_in_step(generator: ModuleType, name: str) -> None:
    assert set(generator.PAGES) == set(NAMES)
    written = (ROOT / "docs" / name).read_text("utf-8")
    assert written == generator.render(name), "run python tools/generate_docs.py"


def test_a_stale_page_is_written_anew(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/cli.md").write_text("old", "utf-8")
    assert generator.main(["--check"]) == 1
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0


def test_everything_is_documented() -> None:
    pages = {path.name: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
    for setting in table():
        assert f"| `{setting.name}` |" in pages["settings.md"]
        assert f" {setting.flag} " in pages["cli.md"]
    for event in EVENTS:
        assert f"| `{event}` |" in pages["events.md"]
    for metric in CATALOG.values():
        assert f"| `{metric.full_name}` |" in pages["metrics.md"]
    assert set(REASON_MEANINGS) == set(Reason)
    for reason in Reason:
        assert f"| `{reason}` |" in pages["reasons.md"]
    root = build()
    for name in root.list_commands(click.Context(root)):
        assert f"\n## supervisor {name}\n" in pages["cli.md"]


def test_no_page_depends_on_the_machine_it_is_made_on(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: generator.render(name) for name in generator.PAGES}
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("SUPERVISOR_TIMEOUT", "5")
    assert {name: generator.render(name) for name in generator.PAGES} == before
