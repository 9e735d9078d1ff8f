"""The dashboards: what Grafana would refuse, what it would show wrongly, what is asked in vain."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml
from dashboard_schema import DASHBOARD
from grafana import panels

from supervisor.monitoring import alerts, export
from supervisor.monitoring.dashboards import dashboards, files
from supervisor.monitoring.promql import Selector, read
from supervisor.monitoring.rule import Links, written_annotations
from supervisor.monitoring.threshold import Thresholds
from supervisor.monitoring.verify import dashboard_problems, known_from
from supervisor.telemetry.catalog import CATALOG, STORE

Json = dict[str, Any]
NAMES = [board.name for board in dashboards(Thresholds())]
each_board = pytest.mark.parametrize("name", NAMES)
_VARIABLE = re.compile(r"\$\{?(\w+)")
_IN_LEGEND = re.compile(r"\{\{(\w+)\}\}")
#: Metrics that no panel and no rule asks for, and who does.
ELSEWHERE = {
    "failed_rate": "the pages: exact, where the records are rates of counters",
    "canceled_rate": "the pages",
    "running_duration_p99_seconds": "the pages",
}


@cache
def text_of(name: str) -> str:
    return files(Links(), Thresholds())[f"{name}.json"]


def board(name: str) -> Json:
    made: Json = json.loads(text_of(name))
    return made


@cache
def rule_documents() -> list[Any]:
    return [yaml.safe_load(one) for one in export.rule_texts(None, Thresholds()).values()]


def queries(name: str) -> Iterator[tuple[Json, Json]]:
    """Yield each panel with each of its targets."""
    return ((panel, target) for panel in panels(board(name)) for target in panel["targets"])


def expressions(name: str) -> list[str]:
    """Return all expressions of a dashboard, those of annotations and variables too."""
    made = board(name)
    of_variables = [one.get("definition", "") for one in made["templating"]["list"]]
    sources = [re.sub(r"label_values\((.*), \w+\)", r"\1", one) for one in of_variables if one]
    notes = [one["expr"] for one in made["annotations"]["list"] if "expr" in one]
    return [*sources, *notes, *(target["expr"] for _, target in queries(name))]


def selectors(name: str) -> list[Selector]:
    return [one for expr in expressions(name) for one in read(expr).selectors]


def errors(document: Json) -> list[str]:
    validator = jsonschema.Draft7Validator(DASHBOARD)
    return [error.message for error in validator.iter_errors(document)]


# ── What Grafana takes ──


@each_board
def test_grafana_takes_it(name: str) -> None:
    assert errors(board(name)) == []


BREAKS: dict[str, Callable[[Json], object]] = {
    "a typo in a panel's key": lambda made: made["panels"][1].update(titel="x"),
    "a typo in what fields get": lambda made: _defaults(made).update(decimal=1),
    "a typo in the settings of lines": lambda made: _lines(made).update(drawstyle="line"),
    "a way to draw that is none": lambda made: _lines(made).update(drawStyle="lines"),
    "a unit that is none": lambda made: _defaults(made).update(unit="secs"),
    "a kind of panel that is none": lambda made: made["panels"][1].update(type="graph"),
    "a target without its letter": lambda made: made["panels"][1]["targets"][0].pop("refId"),
    "a source of data that is fixed": lambda made: made["panels"][1].update(
        datasource={"type": "prometheus", "uid": "P1809F7CD0C75ACF3"}
    ),
    "no description": lambda made: made["panels"][1].update(description=""),
    "no title": lambda made: made["panels"][1].pop("title"),
    "a dashboard that people may change": lambda made: made.update(editable=True),
    "a variable that stays as it was": lambda made: made["templating"]["list"][1].update(refresh=1),
    "a variable that takes one value": lambda made: made["templating"]["list"][1].update(
        multi=False
    ),
    "an unknown transformation": lambda made: _table(made)["transformations"][0].update(id="megre"),
    "an override of nothing": lambda made: _table(made)["fieldConfig"]["overrides"][0][
        "properties"
    ].append({"id": "units", "value": "s"}),
    "the old schema": lambda made: made.update(schemaVersion=16),
}


def _defaults(made: Json) -> Json:
    return next(panels(made))["fieldConfig"]["defaults"]  # type: ignore[no-any-return]


def _lines(made: Json) -> Json:
    first = next(one for one in panels(made) if one["type"] == "timeseries")
    return first["fieldConfig"]["defaults"]["custom"]  # type: ignore[no-any-return]


def _table(made: Json) -> Json:
    return next(one for one in panels(made) if one["type"] == "table")


@pytest.mark.parametrize("what", BREAKS)
def test_grafana_would_not_take_it(what: str) -> None:
    broken = copy.deepcopy(board("overview"))
    BREAKS[what](broken)
    assert errors(broken) != []


# ── What people see ──


def test_dashboards_are_told_apart_and_found() -> None:
    made = [board(name) for name in NAMES]
    assert [one["uid"] for one in made] == [f"supervisor-{name}" for name in NAMES]
    assert len({one["title"] for one in made}) == len(made)
    assert all(one["tags"] == ["supervisor"] for one in made)
    to_others = [one["links"][0] for one in made]
    assert all(link["tags"] == ["supervisor"] and link["includeVars"] for link in to_others)
    for one in made:
        variables = [variable["name"] for variable in one["templating"]["list"]]
        assert variables[:3] == ["datasource", "job", "instance"]


@each_board
def test_panels_lie_beside_each_other(name: str) -> None:
    made = board(name)["panels"]
    taken: Counter[tuple[int, int]] = Counter()
    for panel in made:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        columns = range(place["x"], place["x"] + place["w"])
        rows = range(place["y"], place["y"] + place["h"])
        taken.update(itertools.product(columns, rows))
    assert [cell for cell, count in taken.items() if count > 1] == []
    bottom = 1 + max(row for _, row in taken)
    empty = [(x, y) for y in range(bottom) for x in range(24) if (x, y) not in taken]
    assert empty == [], "a row is not filled to its right end"
    ids = [panel["id"] for panel in made]
    assert ids == sorted(set(ids))


@each_board
def test_panels_say_what_they_show(name: str) -> None:
    made = list(panels(board(name)))
    titles = [panel["title"] for panel in made]
    assert [title for title, count in Counter(titles).items() if count > 1] == []
    for panel in made:
        assert panel["description"].endswith("."), panel["title"]
        assert len(panel["title"]) <= 5.5 * panel["gridPos"]["w"], f"cut: {panel['title']}"


@each_board
def test_legends_name_labels_that_are_there(name: str) -> None:
    for panel, target in queries(name):
        told = set(_IN_LEGEND.findall(target["legendFormat"]))
        asked = read(target["expr"]).labels
        assert told <= set(asked), f"{panel['title']}: {target['legendFormat']}"
        if panel["type"] in ("timeseries", "state-timeline", "heatmap"):
            assert target["legendFormat"] != "__auto", panel["title"]


@each_board
def test_styles_and_columns_are_of_something(name: str) -> None:
    for panel in panels(board(name)):
        styled = [
            one["matcher"]["options"]
            for one in panel["fieldConfig"]["overrides"]
            if one["matcher"]["id"] == "byRegexp"
        ]
        legends = [target["legendFormat"] for target in panel["targets"]]
        known = legends + [value for label in _shown(legends) for value in _values(label)]
        for style in styled:
            assert any(re.search(style, one) for one in known), f"{panel['title']}: {style}"


def _shown(legends: list[str]) -> set[str]:
    return {label for legend in legends for label in _IN_LEGEND.findall(legend)}


def _values(label: str) -> set[str]:
    return {value for metric in CATALOG.values() for value in metric.labels.get(label, ())}


# ── What is asked ──


@each_board
def test_all_that_is_asked_for_is_there(name: str) -> None:
    problems = dashboard_problems(f"{name}.json", board(name), known_from(rule_documents()))
    assert [(one.where, one.text) for one in problems] == []


@each_board
def test_every_question_follows_the_variables(name: str) -> None:
    made = board(name)
    variables = {one["name"] for one in made["templating"]["list"]}
    used = {found for expr in expressions(name) for found in _VARIABLE.findall(expr)}
    assert {one for one in used if not one.startswith("__")} <= variables
    assert variables - {"datasource"} <= used
    jobless = [
        one.name
        for one in selectors(name)
        if ("job", "=~", "$job") not in _conditions(one) and one.name != "supervisor_build_info"
    ]
    assert jobless == []


def _conditions(selector: Selector) -> set[tuple[str, str, str]]:
    return {(one.label, one.operator, one.value) for one in selector.matchers}


@each_board
def test_rates_follow_the_scrape(name: str) -> None:
    for panel, target in queries(name):
        said = re.search(r"last (\d+) minutes", panel["description"])
        also = (f"{said[1]}m",) if said and target["instant"] else ()
        for window in re.findall(
            r"\b(?:rate|increase|changes)\([^\[]*\[([^\]]*)\]", target["expr"]
        ):
            assert window in ("$__rate_interval", "$__range", *also), panel["title"]


def test_bars_stand_on_zero() -> None:
    bars = [
        panel["fieldConfig"]["defaults"]
        for name in NAMES
        for panel in panels(board(name))
        if panel["fieldConfig"]["defaults"]["custom"].get("drawStyle") == "bars"
    ]
    assert len(bars) > 10
    assert {one.get("min") for one in bars} == {0}


def test_a_legend_of_many_names_what_is_there_and_the_largest_first() -> None:
    for name in NAMES:
        for panel in panels(board(name)):
            many = any("{{type}}" in target["legendFormat"] for target in panel["targets"])
            if panel["type"] != "timeseries" or not many:
                continue
            last = panel["fieldConfig"]["overrides"][-1]
            assert last["matcher"]["options"] == {"reducer": "allIsZero", "op": "gte", "value": 0}
            assert last["properties"][0]["value"]["viz"] is False
            legend = panel["options"]["legend"]
            assert legend["displayMode"] == "list" or legend["sortBy"] == "Max"


@each_board
def test_what_all_nodes_say_alike_is_taken_once(name: str) -> None:
    for expr in expressions(name):
        for one in read(expr).selectors:
            metric = CATALOG.get(one.name.removeprefix("supervisor_"))
            if metric is None or expr.startswith(one.name):
                continue  # a record, or the source of a variable
            taken_once = f"max without (instance) ({one.name}{{" in expr
            of_node = ("instance", "=~", "$instance") in _conditions(one)
            by_job = "group by (job)" in expr
            assert taken_once == (metric.scope == STORE), expr
            assert of_node == (metric.scope != STORE) or by_job, expr


def test_every_metric_is_asked_for_somewhere() -> None:
    asked = {one.name for name in NAMES for one in selectors(name)}
    for document in rule_documents():
        for rule in (rule for group in document["groups"] for rule in group["rules"]):
            asked |= {one.name for one in read(rule["expr"]).selectors}
    bare = {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked} | asked
    unasked = {metric.name for metric in CATALOG.values() if metric.full_name not in bare}
    assert unasked == set(ELSEWHERE)


# ── With the alerts ──


def test_alerts_lead_to_dashboards_that_are_there() -> None:
    uids = {board(name)["uid"] for name in NAMES}
    assert {str(alert.board) for alert in alerts.all_alerts()} <= uids


def test_what_an_alert_chooses_can_be_chosen_on_its_dashboard() -> None:
    variables = {
        board(name)["uid"]: {one["name"] for one in board(name)["templating"]["list"]}
        for name in NAMES
    }
    for alert in alerts.all_alerts():
        url = written_annotations(alert, Links(), Thresholds())["dashboard_url"]
        passed = re.findall(r"[?&]var-(\w+)=\{\{ \$labels\.(\w+) \| urlquery \}\}", url)
        there = variables[str(alert.board)]
        assert passed == [(one, one) for one in alert.by if one in there], alert.name
        assert url.count("=") == len(passed), alert.name


@each_board
def test_what_a_panel_hands_on_can_be_chosen_where_it_leads(name: str) -> None:
    by_uid = {board(one)["uid"]: board(one) for one in NAMES}
    for panel in panels(board(name)):
        for link in panel.get("links", ()):
            there = by_uid[re.match(r"/d/([\w-]+)\?", link["url"])[1]]  # type: ignore[index]
            handed_on = set(re.findall(r"\$\{(\w+):queryparam\}", link["url"]))
            for made in (board(name), there):
                assert handed_on <= {one["name"] for one in made["templating"]["list"]}


@pytest.mark.parametrize(
    ("threshold", "name", "title"),
    [
        ("failed_rate", "types", "Failed"),
        ("canceled_rate", "types", "Canceled"),
        ("near_timeout_share", "types", "Over 80 % of the timeout"),
        ("mean_times_expected", "types", "Mean over expected"),
        ("stuck_timeouts", "types", "Timeout used by what runs"),
        ("stall_s", "types", "Since progress"),
        ("queue_wait_s", "queues", "Oldest due task"),
        ("outbox", "queues", "Outbox"),
        ("zombie_share", "workers", "Share of what runs"),
        ("heartbeat_s", "workers", "Age of heartbeats"),
        ("worker_memory_bytes", "workers", "Memory"),
        ("worker_fds", "workers", "Open files"),
        ("survival", "overview", "Workers alive"),
        ("dependency_error_share", "dependencies", "Failed"),
        ("dependency_mean_s", "dependencies", "Mean time"),
    ],
)
def test_lines_are_where_the_alerts_are(threshold: str, name: str, title: str) -> None:
    moved = 3.25
    made = json.loads(files(Links(), Thresholds().changed({threshold: moved}))[f"{name}.json"])
    panel = next(one for one in panels(made) if one["title"] == title)
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert moved in [step["value"] for step in steps]


def test_links_lead_where_they_are_told_to() -> None:
    links = Links(web="https://tasks.example", runbooks="https://docs.example/runbooks")
    made = json.loads(files(links, Thresholds())["autopsies.json"])
    urls = [link["url"] for link in made["links"]]
    assert urls == ["", "https://docs.example/runbooks", "https://tasks.example/autopsies"]
