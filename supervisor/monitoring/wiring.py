"""Verifies how Prometheus and Alertmanager are wired: are nodes scraped, rules loaded, alerts told?

Secret kept here: which lines of prometheus.yml and alertmanager.yml that takes. Paths in them may
be those of a container: a rule file counts as loaded when a pattern ends in its name. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from supervisor.monitoring.promql import duration_s, read
from supervisor.monitoring.verify import EXPORT, Problem, rules_of

#: The value of the label `job` that rules and dashboards ask for.
JOB = "supervisor"
METRICS_PATH = "/metrics"
#: What Prometheus does where nothing is said.
_SCRAPE_INTERVAL_S = 60.0
#: A range must hold a few samples, one of which may be missing.
_SAMPLES = 3
_MATCHER = re.compile(r"""\s*(\w+)\s*(=~|!~|!=|=)\s*"?([^"]*?)"?\s*""")
_LOCAL = ("127.0.0.1", "localhost", "::1")


def scrape_problems(
    file: str, document: object, listen: str | None, rules: Mapping[str, object]
) -> Iterator[Problem]:
    """Return what keeps a Prometheus from scraping nodes that listen there, or from these rules.

    `rules` are the rule files that should be loaded: name → parsed document.
    """
    if not isinstance(document, Mapping):
        yield Problem(file, {}, "it is no configuration of Prometheus", "See docs/deployment.md.")
        return
    yield from _scraped(file, document, listen)
    yield from _loaded(file, document, rules)
    if rules and not list(_targets(_map(document, "alerting"), "alertmanagers")):
        remedy = "List it under alerting.alertmanagers."
        yield Problem(file, {}, "it knows no Alertmanager: nobody is told", remedy, False)
    yield from _often_enough(file, document, rules)


def _scraped(file: str, document: Mapping[str, Any], listen: str | None) -> Iterator[Problem]:
    job = _job(document)
    if job is None:
        text = f'no job of scrape_configs has job_name "{JOB}", which rules and dashboards ask for'
        remedy = f'Call the job that scrapes the nodes "{JOB}".'
        yield Problem(file, {}, text, remedy)
        return
    where = {"job": JOB}
    if (path := job.get("metrics_path", METRICS_PATH)) != METRICS_PATH:
        remedy = f"Leave metrics_path out: it is {METRICS_PATH}."
        yield Problem(file, where, f"it asks for {path}", remedy)
    if job.get("scheme", "http") != "http":
        text, remedy = "it asks by https, which nodes do not speak", "Leave scheme out."
        yield Problem(file, where, text, remedy, False)  # a proxy may stand between
    yield from _at_our_address(file, where, job, listen)


def _at_our_address(
    file: str, where: Mapping[str, str], job: Mapping[str, Any], listen: str | None
) -> Iterator[Problem]:
    if listen is None:
        text = "nodes with these settings serve no metrics"
        yield Problem(file, where, text, "Give the setting metrics_listen an address.")
        return
    host, _, port = listen.rpartition(":")
    if port == "0":
        text = "the port of the nodes is any (metrics_listen ends in :0), so nobody can name it"
        yield Problem(file, where, text, "Give metrics_listen a port.", False)
        return
    targets = [str(target) for target in _targets({"": [job]}, "")]
    if not targets:
        if not any(key.endswith("_sd_configs") for key in job):
            yield Problem(file, where, "it has no targets", f"List HOST:{port} of each node.")
        return  # what is discovered is not known here
    ours = [target for target in targets if target.rpartition(":")[2] == port]
    if not ours:
        text = f"none of its targets has the port {port} of metrics_listen: {', '.join(targets)}"
        yield Problem(file, where, text, f"List HOST:{port} of each node, or change the setting.")
    elif host.strip("[]") in _LOCAL:
        far = [one for one in ours if one.rpartition(":")[0].strip("[]") not in _LOCAL]
        if far:
            text = f"nodes listen at {listen} only, where {far[0]} is not answered from afar"
            remedy = f"Set metrics_listen to 0.0.0.0:{port} on hosts that are scraped by others."
            yield Problem(file, where, text, remedy, False)


def _loaded(
    file: str, document: Mapping[str, Any], rules: Mapping[str, object]
) -> Iterator[Problem]:
    patterns = [str(one) for one in _list(document.get("rule_files"))]
    for name in rules:
        last = PurePosixPath(name).name
        if not any(fnmatchcase(last, PurePosixPath(pattern).name) for pattern in patterns):
            said = ", ".join(patterns) or "empty"
            remedy = "Add its path to rule_files, then reload Prometheus."
            yield Problem(file, {}, f"rule_files ({said}) does not load {name}", remedy)


def _often_enough(
    file: str, document: Mapping[str, Any], rules: Mapping[str, object]
) -> Iterator[Problem]:
    asked = [read(str(rule.get("expr", ""))) for one in rules.values() for _, rule in rules_of(one)]
    shortest_s = min((length for one in asked for length in one.ranges_s), default=None)
    usual = _map(document, "global").get("scrape_interval")
    said = (_job(document) or {}).get("scrape_interval", usual)
    interval_s = _SCRAPE_INTERVAL_S if said is None else duration_s(str(said))
    if shortest_s is None or interval_s is None or interval_s * _SAMPLES <= shortest_s:
        return
    text = f"a scrape every {interval_s:g} s is too seldom for rules over {shortest_s:g} s"
    remedy = f"Set scrape_interval to {shortest_s / _SAMPLES:g}s or less; 15s is usual."
    yield Problem(file, {"job": JOB}, text, remedy)


def routing_problems(
    file: str, document: object, rules: Iterable[object] = ()
) -> Iterator[Problem]:
    """Return what keeps an Alertmanager from telling people; `rules` are parsed rule files."""
    route = _map(document, "route")
    if not route:
        yield Problem(file, {}, "it routes nothing", f"It needs a route and receivers. {EXPORT}.")
        return
    receivers = {
        str(one.get("name")) for one in _list(_map(document).get("receivers")) if _map(one)
    }
    if not route.get("receiver"):
        yield Problem(file, {}, "its route names no receiver", "Name the one for all the rest.")
    alerts = {str(rule["alert"]) for one in rules for _, rule in rules_of(one) if "alert" in rule}
    for branch, where in _branches(route, {}):
        named = branch.get("receiver")
        if named is not None and str(named) not in receivers:
            remedy = f"Receivers: {', '.join(sorted(receivers)) or 'none'}."
            yield Problem(file, where, f"there is no receiver {named}", remedy)
        yield from _named_alerts(file, where, _list(branch.get("matchers")), alerts)
    for rule in _list(_map(document).get("inhibit_rules")):
        for side in ("source_matchers", "target_matchers"):
            matchers = _list(_map(rule).get(side))
            where = {"inhibition": " ".join(str(one) for one in matchers)}
            yield from _named_alerts(file, where, matchers, alerts)


def _branches(
    route: Mapping[str, Any], where: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, str]]]:
    yield route, where
    for inner in _list(route.get("routes")):
        if branch := _map(inner):
            said = " ".join(str(one) for one in _list(branch.get("matchers")))
            yield from _branches(branch, {"route": said or "?"})


def _named_alerts(
    file: str, where: Mapping[str, str], matchers: Sequence[object], alerts: set[str]
) -> Iterator[Problem]:
    for text in matchers:
        found = _MATCHER.fullmatch(str(text))
        if not alerts or found is None or found[1] != "alertname" or found[2] not in ("=", "=~"):
            continue
        names = [found[3]] if found[2] == "=" else found[3].split("|")
        for name in names:
            if re.fullmatch(r"\w+", name) and name not in alerts:
                remedy = f"Correct the name, or remove it. {EXPORT}."
                yield Problem(file, where, f"no rule has an alert {name}", remedy, False)


def _job(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    jobs = [_map(one) for one in _list(document.get("scrape_configs"))]
    return next((one for one in jobs if one.get("job_name") == JOB), None)


def _targets(document: Mapping[str, Any], key: str) -> Iterator[object]:
    """Return the targets that are listed; for each way to discover others, nothing or its name."""
    for one in _list(document.get(key)):
        for group in _list(_map(one).get("static_configs")):
            yield from _list(_map(group).get("targets"))
        if key:
            yield from (name for name in _map(one) if str(name).endswith("_sd_configs"))


def _map(document: object, key: str | None = None) -> Mapping[str, Any]:
    found = document if key is None else _map(document).get(key)
    return found if isinstance(found, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
