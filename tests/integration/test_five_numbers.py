"""The five numbers agree, wherever they are told, after tasks of all endings and killed nodes.

SQL of the test's own is compared with /metrics, with `supervisor top`, with the pages, and with a
real Prometheus.
There the gauges are exact; what is made of counters cannot be: what a node has counted since it was
scraped last goes with it when it is killed, and a rate guesses what lies before its first sample.
"""

from __future__ import annotations

import html
import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import monitoring_servers
import pytest
from harness import NodeUnderTest, Start, eventually
from monitoring_servers import Monitoring
from pages import Browser, pages
from servers import ServerMissing

from supervisor.client import Handle
from supervisor.model.states import REQUEUE_REASONS, State
from supervisor.store.schema import from_micros
from supervisor.telemetry.catalog import CATALOG
from supervisor.web.wording import percent
from supervisor.words.text import span

RULES = Path(__file__).parents[2] / "alerts" / "recording.rules.yml"
SECOND = 1_000_000
#: A scrape may be this late on a busy host.
SCRAPED_S = 3.0

pytestmark = [pytest.mark.timeout(240), pytest.mark.light]


@pytest.fixture
def monitoring() -> Iterator[Monitoring]:
    """A pair of its own: what another test's node has counted must not be added up here."""
    try:
        with monitoring_servers.monitoring() as pair:
            yield pair
    except ServerMissing as exc:
        pytest.skip(str(exc))


@dataclass(frozen=True)
class Truth:
    """What the rows say: endings by (type, outcome), run times by type, and what lives."""

    endings: Mapping[tuple[str, str], int]
    spans: Mapping[str, list[float]]
    in_queue: int

    def share(
        self, of: tuple[str, ...], by: tuple[str, ...], kind: str | None = None
    ) -> float | None:
        """Return the part that some outcomes have of others; None where there are none."""
        counted: Counter[str] = Counter()
        for (type_, outcome), number in self.endings.items():
            if kind in (None, type_):
                counted[outcome] += number
        whole = sum(counted[outcome] for outcome in by)
        return sum(counted[outcome] for outcome in of) / whole if whole else None

    def failed_rate(self, kind: str | None = None) -> float | None:
        return self.share(("failed", "timeout"), ("success", "failed", "timeout"), kind)

    def canceled_rate(self, kind: str | None = None) -> float | None:
        every = ("success", "failed", "timeout", "canceled")
        return self.share(("canceled",), every, kind)

    def p99(self, kind: str | None = None) -> float | None:
        """Return the smallest run time that 99 % did not exceed."""
        found = sorted(x for type_, xs in self.spans.items() if kind in (None, type_) for x in xs)
        return found[math.ceil(0.99 * len(found)) - 1] if found else None


def truth(node: NodeUnderTest) -> Truth:
    rows = node.query(
        "SELECT type, outcome, attempts.reason, attempts.started_at, attempts.ended_at"
        " FROM attempts JOIN tasks USING (task_id) WHERE outcome IS NOT NULL"
    )
    endings: Counter[tuple[str, str]] = Counter()
    spans: dict[str, list[float]] = {}
    for kind, outcome, reason, started, ended in rows:
        if reason in REQUEUE_REASONS:
            endings[kind, "requeued"] += 1
            continue
        endings[kind, outcome.lower()] += 1
        if started is not None:
            spans.setdefault(kind, []).append((ended - started) / SECOND)
    [(due,)] = node.query(
        "SELECT count(*) FROM tasks WHERE state = 'PENDING' AND run_after <= ?",
        int(time.time() * SECOND),
    )
    return Truth(endings, spans, due)


class Storm:
    """300 tasks of all endings on a node that is killed twice meanwhile."""

    def __init__(self, node: NodeUnderTest, monitoring: Monitoring, root: Path) -> None:
        self.node = node
        self.monitoring = monitoring
        self.kills: list[float] = []
        self.root = root
        self._waited = 0

    def run(self) -> list[Handle]:
        first = [self._one(number) for number in range(150)]
        self._cancel_some()
        is_scraped(self.monitoring)
        self._kill()
        second = [self._one(number) for number in range(150, 300)]
        self._cancel_some()
        self._kill()
        ended = (State.SUCCESS, State.FAILED, State.CANCELED, State.TIMEOUT)
        every = [*first, *second]
        eventually(lambda: all(one.view().state in ended for one in every), 90, "all have ended")
        return every

    def _one(self, number: int) -> Handle:
        node = self.node
        match number % 10:
            case 0 | 1:
                return node.submit("boom")
            case 2:
                return node.submit("flaky", path=str(self.root / f"flaky-{number}"))
            case 3:
                return node.submit("wait" if number % 30 == 3 else "ok")
            case 4:
                return node.submit("sleep", s=0.05 + number / 1000)
            case 5 if number % 50 == 5:
                return node.submit("polite", path=str(self.root / f"polite-{number}"))
        return node.submit("ok", value=number)

    def _cancel_some(self) -> None:
        """Cancel the endless ones: some run already, others wait still."""
        wanted = node_waits(self.node)
        eventually(lambda: any(state == "RUNNING" for _, state in node_waits(self.node)), 20)
        self.node.client.cancel([task_id for task_id, _ in wanted], by="anna", reason="enough")

    def _kill(self) -> None:
        time.sleep(1.5)
        self.node.kill()
        self.kills.append(time.time())
        self.node.start()


def node_waits(node: NodeUnderTest) -> list[tuple[str, str]]:
    rows = node.query(
        "SELECT task_id, state FROM tasks WHERE type = 'wait' AND state IN ('PENDING', 'RUNNING')"
    )
    return [(task_id, state) for task_id, state in rows]


@pytest.fixture
def storm(start_node: Start, monitoring: Monitoring, tmp_path: Path) -> Storm:
    monitoring.use([RULES], every="500ms")
    node = start_node(
        workers=4, run=False, metrics_listen=monitoring.listen, autopsy_budget=1, max_retries=3
    )
    node.start()
    return Storm(node, monitoring, tmp_path)


def is_scraped(monitoring: Monitoring) -> None:
    """Wait until a sample made from now on is there."""
    now = time.time()
    eventually(
        lambda: (
            (monitoring.prometheus.value("timestamp(supervisor_start_time_seconds)") or 0) > now
        ),
        15,
        "it is scraped",
    )


def test_they_agree(storm: Storm, monitoring: Monitoring) -> None:
    node = storm.node
    storm.run()
    node.app.pause("default", by="anna", reason="to have a queue")
    for _ in range(7):
        node.submit("ok")
    node.submit("ok", spec={"run_after": "2999-01-01T00:00:00Z"})
    told = truth(node)
    assert told.in_queue == 7
    assert {outcome for _, outcome in told.endings} >= {"success", "failed", "canceled", "timeout"}
    # Retries are attempts of their own; some of the ten that are canceled never had one.
    assert sum(told.endings.values()) >= 290 + 60 + 30

    is_scraped(monitoring)
    time.sleep(1.0)  # what collectors found before serves for half a second
    agrees_with_metrics(node, told)
    agrees_with_top(node, told)
    is_scraped(monitoring)
    is_scraped(monitoring)
    agrees_in_prometheus(monitoring, told)
    counters_lack_at_most_what_a_kill_took(storm, monitoring, told)
    records_are_near(monitoring, told)
    agrees_with_the_pages(node, told, storm.root / "pages")
    monitoring.use()


def agrees_with_metrics(node: NodeUnderTest, told: Truth) -> None:
    found = node.metrics()

    def of(name: str) -> dict[str, float]:
        return {
            dict(labels)["type"]: value
            for (full, labels), value in found.items()
            if full == f"supervisor_{name}"
        }

    kinds = {kind for kind, _ in told.endings}
    for name, exact in (
        ("failed_rate", told.failed_rate),
        ("canceled_rate", told.canceled_rate),
        ("running_duration_p99_seconds", told.p99),
    ):
        wanted = {kind: value for kind in kinds if (value := exact(kind)) is not None}
        assert of(name) == pytest.approx(wanted), name
    in_queue = {labels: v for (full, labels), v in found.items() if full == "supervisor_in_queue"}
    assert sum(in_queue.values()) == told.in_queue
    zombies = [value for (full, _), value in found.items() if full == "supervisor_zombies"]
    assert zombies == [0, 0, 0, 0]


def agrees_with_top(node: NodeUnderTest, told: Truth) -> None:
    numbers = node.cli_json("top")["numbers"]
    assert numbers["in_queue"] == told.in_queue
    assert numbers["zombies_lost"] == 0
    by_type = {one["type"]: one for one in numbers["types"]}
    assert by_type.keys() == {kind for kind, _ in told.endings}
    for kind, line in [(None, numbers), *by_type.items()]:
        assert line["failed_rate"] == told.failed_rate(kind)
        assert line["canceled_rate"] == told.canceled_rate(kind)
        assert line["running_duration_p99_seconds"] == pytest.approx(told.p99(kind))
        for outcome in ("success", "failed", "timeout", "canceled", "requeued"):
            counted = sum(
                number for key, number in told.endings.items()
                if key[1] == outcome and kind in (None, key[0])
            )  # fmt: skip
            assert line[outcome] == counted


def agrees_with_the_pages(node: NodeUnderTest, told: Truth, root: Path) -> None:
    """What a person reads is what the metrics tell, in the words for people."""
    root.mkdir()
    with pages(root, start=False) as site:
        site.env["SUPERVISOR_STORE"] = node.url
        browser = site.start().opened()
        eventually(lambda: has_said(figures(browser)), 20, "the node has said, and is started")
        shown = figures(browser)
        values = {name: value for name, (value, _) in shown.items()}
        assert values == {
            "Oldest running": "–",
            "Zombies": "0",
            "In queue": f"{told.in_queue}",
            "Run time, p99": span(told.p99()),
            "Failed": percent(told.failed_rate()),
            "Canceled": percent(told.canceled_rate()),
            "Survival": values["Survival"],
        }
        assert float(values["Survival"].rstrip("%")) == pytest.approx(survival(node), abs=3)
        assert shown["Zombies"][1] == "lost 0 · stalled 0 · heartbeat lost 0 · orphans 0"
        charted = chart(browser.get("/").text, "endings")
        wanted = {"succeeded": "success", "failed": "failed", "timed out": "timeout",
                  "canceled": "canceled"}  # fmt: skip
        for label, outcome in wanted.items():
            whole = sum(number for key, number in told.endings.items() if key[1] == outcome)
            # The minute that is not over is left out, and what ended in it.
            assert charted[label] <= whole
        page = browser.get("/queues").text
        [row] = re.findall(r"<tr>\s*<td><a [^>]*>default</a>.*?</tr>", page, re.DOTALL)
        numbers = re.findall(r'<td class="number">([\d,]+)</td>', row)
        assert numbers == [f"{told.in_queue}", "1", "0"]
        page = browser.get("/nodes").text
        assert f"pid {node.pid}," in page
        assert "4 wanted, 4 alive; it has 0 attempts" in page
        agrees_with_the_api(json.loads(browser.get("/api/v1/numbers").body), told)


def agrees_with_the_api(said: Any, told: Truth) -> None:
    assert (said["in_queue"], said["running"], said["lost"]) == (told.in_queue, 0, 0)
    for one in said["ended"]:
        kind = one["type"]
        assert one["failed_rate"] == told.failed_rate(kind)
        assert one["canceled_rate"] == told.canceled_rate(kind)
        assert one["p99_s"] == pytest.approx(told.p99(kind))
    assert {one["type"] for one in said["ended"]} == {None, *(kind for kind, _ in told.endings)}


def has_said(shown: dict[str, tuple[str, str]]) -> bool:
    return "stalled 0" in shown["Zombies"][1] and shown["Survival"][0] != "–"


def survival(node: NodeUnderTest) -> float:
    """Return how many workers its node has had of those it wanted, in percent, of five minutes."""
    rows = node.query(
        "SELECT document FROM vitals WHERE node_id = ? AND at > ?",
        node.node_id(),
        int((time.time() - 300) * SECOND),
    )
    said = [json.loads(document)["node"] for (document,) in rows]
    shares = [
        one["workers_alive"] / one["workers_desired"] for one in said if one["stage"] != "starting"
    ]
    return 100 * sum(shares) / len(shares)


def figures(browser: Browser) -> dict[str, tuple[str, str]]:
    """Return value and hint of each number of the first page, by name."""
    parts = ("<h2>(.*?)</h2>", '<p class="value">(.*?)</p>', '<p class="hint">(.*?)</p>')
    figure = '<div class="figure.*?' + ".*?".join(parts)
    found = re.findall(figure, browser.get("/").text, re.DOTALL)
    text = [[html.unescape(re.sub(r"<[^>]*>", "", one)) for one in row] for row in found]
    return {name: (value, hint) for name, value, hint in text}


def chart(page: str, name: str) -> dict[str, int]:
    """Return the sum of each line of a chart, by its table."""
    [found] = re.findall(rf'id="chart-{name}".*?</figure>', page, re.DOTALL)
    head, _, body = found.partition("<tbody>")
    labels = re.findall(r'<th scope="col" class="number">(.*?)</th>', head)
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    cells = [re.findall(r'<td class="number">([\d,]+)</td>', row) for row in rows]
    return {
        label: sum(int(row[at].replace(",", "")) for row in cells)
        for at, label in enumerate(labels)
    }


def agrees_in_prometheus(monitoring: Monitoring, told: Truth) -> None:
    """What is a gauge is exact there: it is told of one moment, and recorded as it is."""
    prometheus = monitoring.prometheus
    assert prometheus.value("sum(supervisor_in_queue)") == told.in_queue
    assert prometheus.value("supervisor:in_queue") == told.in_queue
    assert prometheus.value("supervisor:zombie_count") == 0
    for kind in {kind for kind, _ in told.endings}:
        for name, exact in (
            ("failed_rate", told.failed_rate(kind)),
            ("canceled_rate", told.canceled_rate(kind)),
            ("running_duration_p99_seconds", told.p99(kind)),
        ):
            assert prometheus.value(f'supervisor_{name}{{type="{kind}"}}') == (
                None if exact is None else pytest.approx(exact)
            ), (name, kind)


def counters_lack_at_most_what_a_kill_took(
    storm: Storm, monitoring: Monitoring, told: Truth
) -> None:
    """Add up the counters by their own samples, over all lives of the node."""
    answer = monitoring.prometheus.api(
        "/api/v1/query", query="supervisor_tasks_finished_total[10m]"
    )["data"]["result"]
    seen: Counter[tuple[str, str]] = Counter()
    for series in answer:
        values = [float(value) for _, value in series["values"]]
        grown = sum(b - a if b >= a else b for a, b in pairwise(values))
        labels = series["metric"]
        seen[labels["type"], labels["outcome"]] += round(values[0] + grown)
    assert {key for key, number in seen.items() if number > told.endings.get(key, 0)} == set()
    [*ends] = storm.node.query("SELECT ended_at FROM attempts WHERE ended_at IS NOT NULL")
    near_a_kill = sum(
        any(0 <= kill - ended.timestamp() <= SCRAPED_S for kill in storm.kills)
        for (micros,) in ends
        if (ended := from_micros(micros)) is not None
    )
    lacking = sum(told.endings.values()) - sum(seen.values())
    assert 0 <= lacking <= near_a_kill


def records_are_near(monitoring: Monitoring, told: Truth) -> None:
    """What is made of rates and buckets is no further off than it must be."""
    value = monitoring.prometheus.value
    assert value("supervisor:failed_rate") == pytest.approx(told.failed_rate(), abs=0.1)
    assert value("supervisor:canceled_rate") == pytest.approx(told.canceled_rate(), abs=0.05)
    exact, recorded = told.p99(), value("supervisor:running_duration_p99")
    assert exact is not None
    assert recorded is not None
    edges = (0.0, *CATALOG["running_duration_seconds"].buckets)
    place = next(n for n, edge in enumerate(edges) if exact <= edge)
    assert edges[max(0, place - 2)] <= recorded <= edges[place + 1]
