"""What a scrape of a running node gives: all of the catalogue, well formed, bounded, in time."""

from __future__ import annotations

import contextlib
import gzip
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import psycopg
import pytest
import stores
from harness import NodeUnderTest, Start, eventually
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from supervisor.model.states import State
from supervisor.telemetry.catalog import CATALOG, HISTOGRAM, OPEN

OPEN_METRICS = "application/openmetrics-text;version=1.0.0"
#: Absent until something has ended: there is no rate of nothing.
_RATES = {"running_duration_p99_seconds", "failed_rate", "canceled_rate"}
#: What is not 0 of a node that has run nothing yet: its clocks, itself, its workers.
_NOT_ZERO = (
    *("build_info", "start_time_seconds", "config_", "loop_", "workers", "worker_", "bell_up"),
    *("store_up", "store_commit", "collector_", "task_timeout_seconds"),
    "task_memory_limit_bytes",
)


class Scrape:
    """One answer of /metrics, by the name of each metric."""

    def __init__(
        self,
        node: NodeUnderTest,
        accept: str = "",
        encoding: str = "identity",
        at: str = "",
    ) -> None:
        headers = {"Accept": accept, "Accept-Encoding": encoding}
        request = urllib.request.Request(f"http://{at or node.listen}/metrics", headers=headers)
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=10) as answer:
            self.raw = answer.read()
            self.headers = dict(answer.headers)
        self.took_s = time.monotonic() - began
        packed = self.headers.get("Content-Encoding") == "gzip"
        self.text = (gzip.decompress(self.raw) if packed else self.raw).decode()
        parse = open_families if accept == OPEN_METRICS else plain_families
        self.families = {
            family.name: family
            for family in parse(self.text)  # type: ignore[no-untyped-call]
        }

    def values(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the samples of a metric by their labels; of a histogram the counts."""
        metric = CATALOG[name]
        family = self.families[metric.full_name.removesuffix("_total")]
        shown = metric.full_name + ("_count" if metric.kind == HISTOGRAM else "")
        return {
            tuple(sorted(sample.labels.items())): sample.value
            for sample in family.samples
            if sample.name == shown
        }

    def value(self, name: str, **labels: str) -> float:
        return self.values(name)[tuple(sorted(labels.items()))]


def is_up(node: NodeUnderTest) -> bool:
    """Whether all workers are there, and loop and collectors have shown that."""
    found = Scrape(node)
    hearts = found.values("worker_heartbeat_age_seconds")
    return found.values("workers_alive") == {(): 2.0} and len(hearts) == 2


def test_every_metric_is_there_at_zero_on_a_fresh_node(start_node: Start) -> None:
    node = start_node()
    eventually(lambda: is_up(node), 5)
    found = Scrape(node)
    for name, metric in CATALOG.items():
        values = found.values(name)
        learned = any(not sets for label, sets in metric.labels.items() if label not in _KNOWN)
        if name in _RATES or (learned and metric.labels and not values):
            assert values == {}, name
            continue
        assert values, name
        if not name.startswith(_NOT_ZERO):
            assert set(values.values()) == {0.0}, name
        for labels in values:
            for label, value in labels:
                closed = metric.labels[label]
                assert closed == OPEN or value in closed
    (age,) = found.values("queue_oldest_age_seconds").values()
    assert age == 0
    assert set(found.values("collector_success").values()) == {1.0}
    assert set(found.values("worker_heartbeat_age_seconds")) == {
        (("slot", "0"),), (("slot", "1"),),
    }  # fmt: skip
    assert found.value("task_timeout_seconds", type="ok") == 30


#: Labels whose sets are known once the app is: those of other open labels are learned.
_KNOWN = {"queue", "type", "slot", "version", "python_version"}


@pytest.fixture(scope="module")
def busy(node: NodeUnderTest) -> NodeUnderTest:
    """A node that has seen attempts of most kinds."""
    ends = [node.submit("ok", value=n) for n in range(5)]
    ends += [node.submit("boom"), node.submit("nap"), node.submit("ok", spec={"queue": "mail"})]
    canceled = node.submit("wait")
    node.started(canceled, 20)
    canceled.cancel(by="anna", reason="enough")
    node.app.wait([handle.task_id for handle in (*ends, canceled)], 30)
    eventually(
        lambda: (
            Scrape(node).value(
                "tasks_finished_total", queue="default", type="wait", outcome="canceled"
            )
            == 1
        ),
        5,
    )
    return node


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_promtool_finds_nothing(busy: NodeUnderTest, accept: str) -> None:
    found = Scrape(busy, accept)
    # promtool reads the plain format only: exemplars are taken off, all else is the same.
    text = re.sub(r" # \{[^}]*\} \S+ \S+$", "", found.text, flags=re.MULTILINE)
    if accept:
        assert len(text) < len(found.text)
        assert text.endswith("# EOF\n")
        text = re.sub(r"^# (HELP|TYPE) (\S+) ", _with_total(found), text, flags=re.MULTILINE)
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=text, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def _with_total(found: Scrape):  # type: ignore[no-untyped-def]
    """OpenMetrics names a counter without the `_total` that its samples have."""

    def name(match: re.Match[str]) -> str:
        full = match[2]
        total = found.families[full].type == "counter"
        return f"# {match[1]} {full}{'_total' if total else ''} "

    return name


def test_both_formats_say_the_same(busy: NodeUnderTest) -> None:
    plain, opened = Scrape(busy), Scrape(busy, OPEN_METRICS)
    assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert opened.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    for name in ("tasks_finished_total", "running_duration_seconds", "kills_total", "failed_rate"):
        assert plain.values(name) == opened.values(name)
    assert plain.families.keys() == opened.families.keys()


def test_an_exemplar_leads_to_a_task(busy: NodeUnderTest) -> None:
    found = Scrape(busy, OPEN_METRICS)
    told = {
        (sample.name, sample.labels["outcome"], sample.exemplar.labels["task_id"])
        for name in ("supervisor_tasks_finished", "supervisor_running_duration_seconds")
        for sample in found.families[name].samples
        if sample.exemplar and sample.labels["type"] in ("boom", "nap", "wait")
    }
    assert {name for name, _, _ in told} == {
        "supervisor_tasks_finished_total", "supervisor_running_duration_seconds_bucket",
    }  # fmt: skip
    for _, outcome, task_id in told:
        view = busy.reader.task(task_id)
        assert view is not None
        assert str(view.state).lower() == outcome


def test_it_is_compressed_for_who_takes_it(busy: NodeUnderTest) -> None:
    found = Scrape(busy, encoding="gzip, deflate")
    assert found.headers["Content-Encoding"] == "gzip"
    assert len(found.raw) < len(found.text) / 5
    assert "Content-Encoding" not in Scrape(busy).headers


def test_no_label_value_looks_like_an_id_a_pid_or_an_address(busy: NodeUnderTest) -> None:
    odd = re.compile(r"[0-9a-f]{8,}|\d{3,}|\d+\.\d+\.\d+\.\d+:|[/@\s]|-w\d+$")
    told = {
        (label, value)
        for family in Scrape(busy).families.values()
        for sample in family.samples
        for label, value in sample.labels.items()
        if label != "le"
    }
    assert [pair for pair in told if odd.search(pair[1])] == []
    assert max(len(value) for _, value in told) < 60


def test_counters_of_a_stop_are_there_until_the_end(start_node: Start) -> None:
    """Whoever scrapes while a node drains sees what the drain has brought."""
    node = start_node(workers=2)
    running = [node.submit("sleep", s=seconds) for seconds in (1.5, 5.0)]
    for handle in running:
        node.started(handle)
    node.signal(signal.SIGTERM)
    last, draining = Scrape(node), set()
    with contextlib.suppress(OSError):
        while node.running:
            last = Scrape(node)
            draining.add(last.value("draining"))
    assert draining >= {1.0}
    assert node.wait_exit() == 0
    assert [handle.view().state for handle in running] == [State.SUCCESS] * 2
    done = last.value("tasks_finished_total", queue="default", type="sleep", outcome="success")
    assert done >= 1
    assert last.value("workers_desired") == 0


def test_what_the_store_holds_is_right_at_once_after_a_restart(start_node: Start) -> None:
    node = start_node(workers=1)
    node.run("boom")
    node.app.pause("default", by="anna", reason="not yet")
    for _ in range(3):
        node.submit("ok")
    node.submit("ok", spec={"queue": "mail", "run_after": "2999-01-01T00:00:00Z"})
    before = Scrape(node)
    node.kill()
    node.start(wait=False)
    eventually(lambda: node.get("/metrics")[0] == 200, 20)
    first = Scrape(node)
    for name in ("in_queue", "scheduled", "queue_paused", "failed_rate"):
        told = {k: v for k, v in first.values(name).items() if v}
        assert told == {k: v for k, v in before.values(name).items() if v}, name
    assert first.value("in_queue", queue="default", type="ok") == 3.0
    assert first.value("failed_rate", type="boom") == 1.0
    assert set(first.values("tasks_finished_total").values()) <= {0.0}
    assert node.app.resume("default", by="anna", reason="now")
    node.wait_ready()


@contextlib.contextmanager
def read_by_nobody(node: NodeUnderTest, *tables: str) -> Iterator[None]:
    """Let every reader of these tables wait."""
    url = node.database.url.replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE".encode())
        yield
        connection.rollback()


def test_a_store_that_hangs_does_not_hang_the_scrape(start_node: Start) -> None:
    node = start_node(store=stores.SERVER)
    node.run("ok")
    eventually(lambda: is_up(node), 5)
    before = Scrape(node)
    assert before.values("in_queue")
    at = node.listen  # which is asked of the store as well
    slowest_s = max(before.values("collector_duration_seconds").values())
    with read_by_nobody(node, "tasks"):
        time.sleep(max(0.6, 20 * slowest_s + 0.1))  # so long what was found before serves
        found = Scrape(node, at=at)
        assert found.took_s < 4.5
        success = {dict(k)["collector"]: v for k, v in found.values("collector_success").items()}
        assert success == {"backlog": 0, "recent": 0, "zombies": 0, "workers": 1}
        for name in ("in_queue", "scheduled", "queue_oldest_age_seconds", "failed_rate"):
            assert found.values(name) == {}, name
        assert found.value("collector_duration_seconds", collector="backlog") > 1.9
        assert found.values("zombies").keys() == {
            (("kind", kind),) for kind in ("stalled", "heartbeat_lost", "orphan")
        }
        again = Scrape(node, at=at)
        assert again.took_s < 1.8, "it is not waited for a second time"
    eventually(
        lambda: set(Scrape(node).values("collector_success").values()) == {1.0}, 65, "it is back"
    )
    told = {event["collector"] for event in node.events("collector.failed")}
    assert told == {"backlog", "recent", "zombies"}
