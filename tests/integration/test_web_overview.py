"""The first page: its numbers are of the store and of what nodes said, its findings by urgency.

No node runs here: what nodes would write is written by the test, so that each number is known.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from harness import eventually
from pages import Browser, PagesUnderTest, pages

from supervisor.model import outcome
from supervisor.model.outcome import Outcome
from supervisor.model.record import Claim, Ending, NodeRecord, Owner, ProcessIdentity, Started
from supervisor.model.retry import RetryPolicy
from supervisor.store import Ledger, Store, open_store, vitals
from supervisor.store.ledger.alerts import Telling
from supervisor.store.vitals import VitalsView
from supervisor.web.survey import Surveyor
from supervisor.words.roll import roll_call

FAR = ProcessIdentity(pid=7, start_ticks=70, boot_id="another host", pid_ns=1)
POLICY = RetryPolicy(max_retries=0, base_s=10, max_s=3600, max_crashes=3)


@dataclass
class Stage:
    """A store with nodes of other hosts, and the pages over it."""

    site: PagesUnderTest
    store: Store
    browser: Browser

    @property
    def now(self) -> datetime:
        return self.store.clock.now()

    def node(self, name: str) -> str:
        record = NodeRecord(
            node_id=f"{name}-1", node_name=name, process=FAR, version="0.1.0", listen="none",
            started_at=self.now - timedelta(hours=1),
        )  # fmt: skip
        with Ledger(self.store).transaction() as tx:
            tx.register_node(record)
            tx.record_types({"greet": None, "part": None}, record.node_id, self.now)
        return record.node_id

    def claim(self, type: str = "greet", node_id: str = "a-1", ran_s: float = 1.0) -> Claim:
        """Submit a task and let it have begun so long ago."""
        self.site.app.submit({"type": type, "params": {}})
        owner, began = Owner(f"{node_id}-w1", 9, 9), self.now - timedelta(seconds=ran_s)
        with Ledger(self.store).transaction() as tx:
            [claim] = tx.claim([owner], node_id=node_id, queues=None, types={type}, now=self.now)
            started = Started(
                task_id=claim.task_id, attempt=1, started_at=began, timeout=60, soft_timeout=54
            )
            tx.started([started])
        return claim

    def end(self, claim: Claim, how: Outcome) -> None:
        ending = Ending(
            task_id=claim.task_id, attempt=1, outcome=how, policy=POLICY, ended_at=self.now
        )
        with Ledger(self.store).transaction() as tx:
            tx.finish([ending])

    def say(self, node_id: str, at_s: float = 1.0, workers: Any = (), **node: Any) -> None:
        """Let a node have said this so many seconds ago."""
        known = {"cpu_s": 1.0, "rss": 1, "loop_lag_s": 0.0, "stage": "running", **node}
        document = json.dumps({"node": known, "workers": list(workers)})
        with Ledger(self.store).transaction() as tx:
            tx.vitals.write(node_id, self.now - timedelta(seconds=at_s), document)

    def figures(self) -> dict[str, tuple[str, str]]:
        parts = ("<h2>(.*?)</h2>", '<p class="value">(.*?)</p>', '<p class="hint">(.*?)</p>')
        figure = '<div class="figure.*?' + ".*?".join(parts)
        rows = re.findall(figure, self.browser.get("/").text, re.DOTALL)
        found = [[html.unescape(re.sub("<[^>]*>", "", one)) for one in row] for row in rows]
        return {name: (value, hint) for name, value, hint in found}

    def figure(self, name: str, value: str, hint: str) -> None:
        """Wait until a number is this: what is shared may be seconds old."""
        try:
            eventually(lambda: self.figures()[name] == (value, hint), 15)
        except AssertionError:
            assert self.figures()[name] == (value, hint)

    def findings(self) -> list[tuple[str, str]]:
        text = self.browser.get("/").text
        rows = re.findall(r'<li class="(now|soon|known)">(.*?)</li>', text, re.DOTALL)
        plain = [(how, html.unescape(re.sub("<[^>]*>", "", one))) for how, one in rows]
        return [(how, one.removesuffix(" Look")) for how, one in plain]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with pages(tmp_path) as site, closing(open_store(site.url, create=False)) as store:
        yield Stage(site, store, site.opened())


def test_what_only_nodes_know_is_what_they_have_said(stage: Stage) -> None:
    stage.node("a")
    unsaid = "lost 0 · of those that stand still, nodes have not said"
    stage.figure("Zombies", "0", unsaid)
    stage.figure("Survival", "–", "workers alive of those wanted; nodes have not said")
    stage.node("b")
    for back in range(0, 290, 10):
        of_a, of_b = (4, 4) if back > 140 else (4, 2), (8, 8)
        for node_id, (wanted, alive) in (("a-1", of_a), ("b-1", of_b)):
            kinds = {"stalled": 1, "heartbeat_lost": 0, "orphan": 2 if node_id == "b-1" else 0}
            stage.say(node_id, 1 + back, workers_desired=wanted, workers_alive=alive, zombies=kinds)
    said = "lost 0 · stalled 2 · heartbeat lost 0 · orphans 2"
    stage.figure("Zombies", "4", said)
    least = "workers alive of those wanted, mean of 5 minutes, of the node that has least: a"
    stage.figure("Survival", "74%", least)
    stage.node("c")
    stage.say("c-1", 300)
    stage.figure("Zombies", "4", f"{said} · 1 node has not said")
    assert ("now", "2 processes of ended attempts run on.") in stage.findings()
    assert (
        "now", "Node a had 74% of the workers it wants, in the mean of 5 minutes."
    ) in stage.findings()  # fmt: skip


def test_findings_come_by_urgency(stage: Stage) -> None:
    assert stage.findings() == [
        ("now", "No node runs: no task would run. Start one with supervisor run."),
    ]
    stage.node("a")
    stage.end(stage.claim(), outcome.raised("ValueError", "no", "tb"))
    stage.end(stage.claim(), outcome.soft_timed_out())
    stage.end(stage.claim(), outcome.returned("1"))
    stage.site.app.submit({"type": "renamed", "params": {}})
    stage.site.client.pause("mail", by="anna", reason="the bank is down")
    still, gone = stage.claim("part", ran_s=500), stage.claim("part", "x-1", ran_s=20)
    worker = {"worker_id": "a-1-w1", "task_id": still.task_id, "attempt": 1, "verdict": "stalled"}
    stage.say("a-1", workers=[worker], zombies={"stalled": 1, "heartbeat_lost": 0, "orphan": 0})
    alert = Telling(
        fingerprint="f", name="QueueGrows", severity="page", labels={}, annotations={},
        starts_at=stage.now, ends_at=None,
    )  # fmt: skip
    always = replace(alert, fingerprint="w", name="Watchdog")
    stage.site.client.take_alerts([alert, always])
    last = ("known", "1 task timed out for good: rerun it, or leave it.")
    found = eventually(lambda: (told := stage.findings())[-1] == last and told[6:] and told, 15)
    pause = next(text for how, text in found if "mail" in text)
    judged = "the node that runs will judge it soon"
    assert found == [
        ("now", f"part {gone.task_id} runs on a node that is gone: {judged}."),
        ("now", f"part {still.task_id}: stalled."),
        ("now", "1 alert fires: QueueGrows."),
        ("soon", "No node that runs knows the type renamed: 1 task waits."),
        ("known", pause),
        ("known", "1 task failed for good: rerun it, or leave it."),
        last,
    ]
    assert re.fullmatch(r"queue mail is paused by anna since .*: the bank is down\.", pause)
    stage.figure("Zombies", "2", "lost 1 · stalled 1 · heartbeat lost 0 · orphans 0")
    value, hint = stage.figures()["Oldest running"]
    assert re.fullmatch(r"8 m \d\d s", value)
    assert hint == "part; 2 run"


def test_the_last_hour_is_told_without_the_minute_that_is_not_over(stage: Stage) -> None:
    stage.node("a")
    stage.end(stage.claim(), outcome.returned("1"))
    page = stage.browser.get("/").text
    for name in ("endings", "flow", "waiting"):
        [data] = re.findall(rf"id=\"chart-{name}\" data-chart='(.*?)'", page)
        told = json.loads(html.unescape(data))
        assert len(told["x"]) == 59
        assert {len(one["values"]) for one in told["series"]} == {59}
        assert told["x"][-1] % 60 == 0
        assert -60 <= told["x"][-1] - stage.now.timestamp() <= 0


def test_what_a_node_has_said_is_read_but_a_few_times(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.node("a")
    for back in range(0, 290, 5):
        stage.say("a-1", back, workers_desired=4, workers_alive=4 if back > 20 else 2)
    roll, start = roll_call(stage.site.client.reader), stage.now
    kept, read = Surveyor(), 0
    decode = vitals._view

    def counted(row: Any) -> VitalsView:
        nonlocal read
        read += 1
        return decode(row)

    monkeypatch.setattr(vitals, "_view", counted)
    for after_s, most in ((1, 70), (3, 10), (12, 10), (23, 70)):  # then nobody has looked for long
        stage.say("a-1", 0, workers_desired=4, workers_alive=1)
        now, read = start + timedelta(seconds=after_s), 0
        found = kept.survey(stage.store, roll, now)
        assert 0 < read <= most
        assert found == Surveyor().survey(stage.store, roll, now)
