"""Rule files, dashboards and the wiring, each with one mistake: what is said of it, and the way."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from supervisor.monitoring.verify import (
    EXPORT,
    Problem,
    dashboard_problems,
    known_from,
    rule_problems,
)
from supervisor.monitoring.wiring import routing_problems, scrape_problems

LISTEN = "0.0.0.0:9464"


def of_rule(expr: str, **others: Any) -> list[Problem]:
    """Return the problems of a file with one record and one alert."""
    record = {"record": "queue:supervisor_in_queue:sum", "expr": "sum(supervisor_in_queue)"}
    alert = {"alert": "TooMany", "expr": expr, "labels": {"severity": "warning"}, **others}
    document = {"groups": [{"name": "tasks", "rules": [record, alert]}]}
    return list(rule_problems("a.rules.yml", document, known_from([document])))


def said(problems: Iterable[Problem]) -> list[str]:
    return [one.text for one in problems]


@pytest.mark.parametrize(
    "expr",
    [
        "supervisor_in_queue > 20",
        "queue:supervisor_in_queue:sum > 0",
        'histogram_quantile(.9, rate(supervisor_running_duration_seconds_bucket{le!=""}[5m])) > 1',
        'sum by (type) (rate(supervisor_tasks_finished_total{outcome=~"failed|timeout"}[10m]))',
        'supervisor_zombies{kind!="lost"} > 0 and on () up{job="supervisor"}',
        'node_load1 > 3 or my:own:record or other_thing{color="red"}',
        '{__name__=~"supervisor_in_.*"}',
        'supervisor_in_queue{cluster="a"} and supervisor_in_queue{type="$type"}',
        'label_replace(supervisor_in_queue, "who", "$1", "queue", "(.*)") * on (who) owner',
        'ALERTS{alertstate="firing"}',
    ],
)
def test_what_is_there_may_be_asked_for(expr: str) -> None:
    assert [one for one in of_rule(expr) if one.is_fatal] == []


@pytest.mark.parametrize(
    ("expr", "text", "remedy"),
    [
        (
            "supervisor_in_queues > 20",
            "there is no metric supervisor_in_queues",
            "Did you mean supervisor_in_queue?",
        ),
        (
            "supervisor_frobnications > 20",
            "there is no metric supervisor_frobnications",
            "See docs/metrics.md.",
        ),
        (
            "rate(supervisor_queue_wait_seconds[5m])",
            (
                "supervisor_queue_wait_seconds is a histogram, exposed as "
                "supervisor_queue_wait_seconds_bucket, supervisor_queue_wait_seconds_sum, "
                "supervisor_queue_wait_seconds_count"
            ),
            "Name one of these.",
        ),
        (
            "supervisor_in_queue_bucket > 1",
            "there is no metric supervisor_in_queue_bucket",
            "Did you mean supervisor_in_queue?",
        ),
        (
            "queue:supervisor_in_queue:total > 0",
            "no rule records queue:supervisor_in_queue:total",
            "Did you mean queue:supervisor_in_queue:sum?",
        ),
        ("supervisor:zombies > 0", "no rule records supervisor:zombies", "See docs/metrics.md."),
        (
            'supervisor_tasks_finished_total{outcome="succeeded"}',
            'no series of supervisor_tasks_finished_total has outcome="succeeded"',
            "It is one of: success, failed, canceled, timeout, requeued.",
        ),
        (
            'supervisor_tasks_finished_total{outcome=~"succ|fail"}',
            'no series of supervisor_tasks_finished_total has outcome=~"succ|fail"',
            "It is one of: success, failed, canceled, timeout, requeued.",
        ),
        (
            'supervisor_cancel_requests_total{queue="q"}',
            "supervisor_cancel_requests_total has no label queue; its labels: type",
            "Use one of them.",
        ),
        (
            '{__name__=~"supervisor_no.*"}',
            "no metric's name is like supervisor_no.*",
            "See docs/metrics.md.",
        ),
    ],
)
def test_what_is_not_there_is_told_with_its_place_and_a_remedy(
    expr: str, text: str, remedy: str
) -> None:
    where = {"group": "tasks", "rule": "TooMany"}
    assert of_rule(expr) == [Problem("a.rules.yml", where, text, f"{remedy} {EXPORT}.")]
    assert of_rule(expr)[0].place == "a.rules.yml: group tasks, rule TooMany"


def test_what_is_asked_for_twice_is_told_once() -> None:
    assert said(of_rule("sum by (nothing) (supervisor_x) / sum by (nothing) (supervisor_x)")) == [
        "there is no metric supervisor_x"
    ]


def test_a_label_that_only_a_scraper_could_add_is_a_warning() -> None:
    (matched,) = of_rule('supervisor_in_queue{task_type="a"}')
    assert matched.text == "supervisor_in_queue has no label task_type; its labels: queue, type"
    (grouped,) = of_rule("sum by (task_type) (supervisor_in_queue)")
    assert grouped.text == "nothing of ours has a label task_type"
    assert (matched.is_fatal, grouped.is_fatal) == (False, False)
    assert of_rule("sum by (color) (node_load1)") == []


@pytest.mark.parametrize(
    "document", [None, [], "text", {"groups": None}, {"groups": [1]}, {"a": 1}]
)
def test_what_is_no_rule_file_is_called_so(document: Any) -> None:
    found = list(rule_problems("x.yml", document, known_from([document])))
    assert said(found) == ["it has no groups of rules"]


DASHBOARD = {
    "title": "T",
    "panels": [
        {"title": "Good", "targets": [{"refId": "A", "expr": "supervisor_in_queue"}]},
        {
            "type": "row",
            "panels": [
                {"title": "Bad", "targets": [{"refId": "B", "expr": "sum(supervisor_inqueue)"}]}
            ],
        },
    ],
    "templating": {
        "list": [
            {"name": "job", "type": "query", "query": {"query": "label_values(up, job)"}},
            {"name": "kind", "type": "query", "query": 'label_values(supervisor_kinds{a="b"}, x)'},
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            {"name": "label", "type": "query", "query": "label_values(job)"},
        ]
    },
    "annotations": {
        "list": [{"name": "Starts", "expr": "changes(supervisor_start_secs[5m])"}, {"name": "None"}]
    },
}  # fmt: skip


def test_panels_variables_and_annotations_of_a_dashboard_are_read() -> None:
    found = list(dashboard_problems("d.json", DASHBOARD, known_from([])))
    assert [(dict(one.where), one.text) for one in found] == [
        ({"panel": "Bad", "query": "B"}, "there is no metric supervisor_inqueue"),
        ({"variable": "kind"}, "there is no metric supervisor_kinds"),
        ({"annotation": "Starts"}, "there is no metric supervisor_start_secs"),
    ]
    assert said(dashboard_problems("d.json", {"panels": []}, known_from([]))) == [
        "no panel of it asks for anything"
    ]


PROMETHEUS = """
global: {scrape_interval: 15s}
rule_files: [/etc/prometheus/alerts/*.rules.yml]
alerting:
  alertmanagers:
    - static_configs: [{targets: ["alertmanager:9093"]}]
scrape_configs:
  - job_name: supervisor
    static_configs: [{targets: ["node-1:9464", "node-2:9464"]}]
"""
RULES = {
    "alerts/a.rules.yml": {
        "groups": [{"name": "g", "rules": [{"alert": "A", "expr": "rate(up[5m]) > 0"}]}]
    }
}


NO_JOB = 'no job of scrape_configs has job_name "supervisor", which rules and dashboards ask for'


def of_scrape(
    change: tuple[str, str] = ("", ""),
    listen: str | None = LISTEN,
    rules: dict[str, Any] | None = None,
) -> list[Problem]:
    assert change[0] in PROMETHEUS
    document = yaml.safe_load(PROMETHEUS.replace(*change) if change[0] else PROMETHEUS)
    return list(scrape_problems("p.yml", document, listen, RULES if rules is None else rules))


def test_a_configuration_that_scrapes_and_loads_has_no_problem() -> None:
    assert of_scrape() == []
    assert (
        of_scrape((' static_configs: [{targets: ["node', ' dns_sd_configs: [{names: ["node')) == []
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            ("job_name: supervisor", "job_name: tasks"),
            NO_JOB,
        ),
        (
            ("9464", "9100"),
            "none of its targets has the port 9464 of metrics_listen: node-1:9100, node-2:9100",
        ),
        (("- job_name", "- metrics_path: /stats\n    job_name"), "it asks for /stats"),
        (
            ("- job_name", "- scheme: https\n    job_name"),
            "it asks by https, which nodes do not speak",
        ),
        (('targets: ["node-1:9464", "node-2:9464"]', "targets: []"), "it has no targets"),
        (
            ("*.rules.yml", "*.rule.yml"),
            "rule_files (/etc/prometheus/alerts/*.rule.yml) does not load alerts/a.rules.yml",
        ),
        (
            ("alertmanagers:", "managers:"),
            "it knows no Alertmanager: nobody is told",
        ),
        (
            ("scrape_interval: 15s", "scrape_interval: 3m"),
            "a scrape every 180 s is too seldom for rules over 300 s",
        ),
    ],
)  # fmt: skip
def test_each_mistake_in_the_wiring_is_told(change: tuple[str, str], text: str) -> None:
    assert said(of_scrape(change)) == [text]


@pytest.mark.parametrize(
    ("listen", "text", "is_fatal"),
    [
        (None, "nodes with these settings serve no metrics", True),
        (
            "127.0.0.1:9464",
            "nodes listen at 127.0.0.1:9464 only, where node-1:9464 is not answered from afar",
            False,
        ),
        (
            "0.0.0.0:0",
            "the port of the nodes is any (metrics_listen ends in :0), so nobody can name it",
            False,
        ),
    ],
)
def test_where_nodes_listen_must_fit(listen: str | None, text: str, is_fatal: bool) -> None:
    (problem,) = of_scrape(listen=listen)
    assert (problem.text, problem.is_fatal) == (text, is_fatal)
    assert problem.remedy


@pytest.mark.parametrize("document", [None, [], "text"])
def test_what_is_no_configuration_is_called_so(document: Any) -> None:
    assert said(scrape_problems("p.yml", document, LISTEN, {})) == [
        "it is no configuration of Prometheus"
    ]
    assert said(routing_problems("a.yml", document)) == ["it routes nothing"]


ROUTES = {
    "route": {
        "receiver": "chat",
        "routes": [
            {"matchers": ['alertname="A"'], "receiver": "pager"},
            {"matchers": ['severity=~"a|b"'], "routes": [{"matchers": ["x!=y"]}]},
        ],
    },
    "receivers": [{"name": "chat"}, {"name": "pager"}],
    "inhibit_rules": [{"source_matchers": ['alertname="A"'], "target_matchers": ["severity=info"]}],
}  # fmt: skip


def of_routes(*change: str) -> list[Problem]:
    text = json.dumps(ROUTES)
    assert not change or change[0] in text
    document = json.loads(text.replace(*change) if change else text)
    return list(routing_problems("a.yml", document, RULES.values()))


def test_routes_with_a_receiver_each_have_no_problem() -> None:
    assert of_routes() == []


def test_a_receiver_that_is_not_there_and_alerts_that_no_rule_has_are_told() -> None:
    (lost,) = of_routes('"name": "pager"', '"name": "paging"')
    assert (lost.text, lost.remedy) == ("there is no receiver pager", "Receivers: chat, paging.")
    assert lost.place == 'a.yml: route alertname="A"'
    misspelt = of_routes('alertname=\\"A\\"', 'alertname=~\\"A|Bee\\"')
    assert [(one.text, one.is_fatal, *one.where) for one in misspelt] == [
        ("no rule has an alert Bee", False, "route"),
        ("no rule has an alert Bee", False, "inhibition"),
    ]
    assert said(of_routes('"receiver": "chat", ', "")) == ["its route names no receiver"]
