"""The files of rules, routes and runbooks, and writing them into a folder without doing harm.

Secret kept here: which file is ours (its first lines say so). Only such a file, or none, is
replaced, unless forced. `texts` is pure. Called by the command line, the generator of the committed
files, and tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from supervisor.errors import Refused
from supervisor.monitoring import alertmanager, alerts, recording, runbook
from supervisor.monitoring.alertmanager import Receivers
from supervisor.monitoring.rule import Links, document, to_yaml
from supervisor.monitoring.threshold import Thresholds

RULE_FILES = ("recording.rules.yml", "alerts.rules.yml", "slo.rules.yml")
ALERTMANAGER_FILE = "alertmanager.yml"
_OURS = ("# Generated from supervisor/monitoring", runbook.NOTICE, '"uid": "supervisor-')


def rule_texts(links: Links | None, thresholds: Thresholds) -> Mapping[str, str]:
    """Return the text of each rule file; without links, alerts have no annotations."""
    groups = (recording.groups(), alerts.groups(), alerts.slo_groups())
    return {
        name: to_yaml(document(of, thresholds, links))
        for name, of in zip(RULE_FILES, groups, strict=True)
    }


def alertmanager_text(receivers: Receivers) -> Mapping[str, str]:
    """Return the text of Alertmanager's file, by its name."""
    return {ALERTMANAGER_FILE: alertmanager.render(receivers)}


def runbook_texts(thresholds: Thresholds) -> Mapping[str, str]:
    """Return the text of each runbook, by file name."""
    return {
        f"{name}.md": runbook.page(of, thresholds) for name, of in sorted(alerts.by_name().items())
    }


def texts(links: Links, thresholds: Thresholds, receivers: Receivers) -> Mapping[str, str]:
    """Return every file of an export by its path in the folder."""
    return {
        **rule_texts(links, thresholds),
        **alertmanager_text(receivers),
        **{f"runbooks/{name}": text for name, text in runbook_texts(thresholds).items()},
    }


def write(folder: Path, files: Mapping[str, str], *, force: bool) -> Mapping[str, str]:
    """Write the files; return what became of each: written, replaced or unchanged.

    Raises Refused, having written nothing, when a file is there that is not ours.
    """
    foreign = [] if force else sorted(_foreign(folder, files))
    if foreign:
        raise Refused(
            f"not written by this command: {', '.join(foreign)}",
            remedy="Export into another folder, or add --force to replace them.",
        )
    return {name: _put(folder / name, text) for name, text in files.items()}


def _foreign(folder: Path, files: Iterable[str]) -> Iterable[str]:
    for name in files:
        path = folder / name
        if path.exists() and not any(mark in _head(path) for mark in _OURS):
            yield str(path)


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(400).decode("utf-8", "replace")


def _put(path: Path, text: str) -> str:
    before = path.read_bytes() if path.exists() else None
    if before == text.encode():
        return "unchanged"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return "written" if before is None else "replaced"
