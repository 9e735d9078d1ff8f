"""What `supervisor check` finds of the files by which Prometheus, Alertmanager and Grafana watch.

Secret kept here: how these files are found and read. What must stand in them is known to
`supervisor.monitoring`. Nothing is asked over the network.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from supervisor.cli.finding import FAIL, OK, WARN, Finding
from supervisor.cli.group import EXIT_USAGE
from supervisor.monitoring.verify import (
    Known,
    Problem,
    dashboard_problems,
    known_from,
    rule_problems,
    rules_of,
)
from supervisor.monitoring.wiring import routing_problems, scrape_problems


@dataclass(frozen=True, slots=True)
class Monitored:
    """The files that a person named."""

    prometheus: Path | None = None
    rules: Path | None = None
    dashboards: Path | None = None
    alertmanager: Path | None = None


def monitoring_findings(files: Monitored, listen: str | None) -> Iterator[Finding]:
    """Look at the files; `listen` is where nodes of these settings serve their metrics."""
    rules: dict[str, Any] = {}
    if files.rules is not None:
        unread, found_files = _all(files.rules, ("*.yml", "*.yaml"))
        rules = {name: one for name, one in found_files.items() if not _is_other(one)}
        known = known_from(rules.values())
        found = [*unread]
        for name, document in rules.items():
            found += rule_problems(name, document, known)
        count = sum(1 for document in rules.values() for _ in rules_of(document))
        yield from _told(
            "rules", found, f"{count} rules in {_counted(rules)} ask for what is there"
        )
    if files.dashboards is not None:
        unread, pages = _all(files.dashboards, ("*.json",))
        known = known_from(rules.values()) if rules else _shipped()
        found = [*unread]
        for name, page in pages.items():
            found += dashboard_problems(name, page, known)
        asks = "asks" if len(pages) == 1 else "ask"
        yield from _told("dashboards", found, f"{_counted(pages)} {asks} for what is there")
    if files.prometheus is not None:
        yield from _one("prometheus", files.prometheus, listen, rules)
    if files.alertmanager is not None:
        yield from _one("alertmanager", files.alertmanager, listen, rules)


def _is_other(document: object) -> bool:
    """Say whether it is a file that lies beside rules in an export: the routes, or a Prometheus."""
    return isinstance(document, Mapping) and bool({"route", "scrape_configs"} & document.keys())


def _one(about: str, path: Path, listen: str | None, rules: Mapping[str, Any]) -> Iterator[Finding]:
    document, problem = _read(path)
    if problem is not None:
        yield from _told(about, [problem], "")
        return
    if about == "prometheus":
        found = scrape_problems(str(path), document, listen, rules)
        loaded = f" and loads {_counted(rules)} of rules" if rules else ""
        yield from _told(about, found, f"{path} scrapes nodes at {listen}{loaded}")
        return
    try:
        routes = list(routing_problems(str(path), document, rules.values()))
    except RecursionError:  # an alias in YAML can make a route one of its own branches
        routes = [_too_deep(path)]
    yield from _told(about, routes, f"{path} has a receiver for every route")


def _told(about: str, problems: Iterable[Problem], good: str) -> Iterator[Finding]:
    """Return a finding for each problem, or one that there is none, in these words."""
    told = list(problems)
    for one in told:
        where = {"file": one.file, **one.where}
        level = FAIL if one.is_fatal else WARN
        yield Finding(about, level, f"{one.place}: {one.text}", one.remedy, EXIT_USAGE, where)
    if good and not any(one.is_fatal for one in told):
        yield Finding(about, OK, good)


def _shipped() -> Known:
    """Return what is there with the rules of this version, where none are named."""
    from supervisor.monitoring import recording
    from supervisor.monitoring.rule import Group, document
    from supervisor.monitoring.threshold import Thresholds

    groups = (*recording.groups(), Group("slo", recording.slo_records()))
    return known_from([document(groups, Thresholds(), None)])


def _all(folder: Path, patterns: Iterable[str]) -> tuple[list[Problem], dict[str, Any]]:
    """Read every file of a folder (or the one file that was named): name → document."""
    paths = [folder]
    if folder.is_dir():
        paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
    if not paths:
        remedy = "Name another, or let `supervisor rules export` or `dashboards export` fill it."
        return [Problem(str(folder), {}, f"no {' or '.join(patterns)} in it", remedy)], {}
    read = {str(path): _read(path) for path in paths}
    problems = [problem for _, problem in read.values() if problem is not None]
    return problems, {name: document for name, (document, problem) in read.items() if not problem}


def _read(path: Path) -> tuple[Any, Problem | None]:
    kind = "JSON" if path.suffix == ".json" else "YAML"
    try:
        if stat.S_ISCHR(path.stat().st_mode):  # one may have no end
            return None, Problem(str(path), {}, "it is a device, no file", "Name a file.")
        text = path.read_text("utf-8")
        return (json.loads(text) if kind == "JSON" else yaml.safe_load(text)), None
    except OSError as exc:
        return None, Problem(str(path), {}, f"cannot be read: {exc.strerror}", "Name another file.")
    except RecursionError:
        return None, _too_deep(path)
    # The last three are what the parser of YAML does with a tag whose value does not fit it.
    except (ValueError, yaml.YAMLError, TypeError, LookupError, AttributeError) as exc:
        said = " ".join(str(exc).split())
        return None, Problem(str(path), {}, f"it is no {kind}: {said}", "Correct it.")


def _too_deep(path: Path) -> Problem:
    return Problem(str(path), {}, "it is nested too deeply", "Is it the right file?")


def _counted(files: Mapping[str, Any]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"
