"""Trouble with real workers reaches people: node → Prometheus → rule → Alertmanager → web hook.

The rules and routes are those that `supervisor rules export` writes, in quick motion (a minute is
two seconds; thresholds as they are). Five causes at once, each told to its receiver with a link to
the very autopsy, and told to be over once the cause is gone; then the numbers are compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest
import quick_rules
import yaml
from harness import COMMAND, MARKER, NodeUnderTest, eventually
from monitoring_servers import Monitoring, Told
from servers import free_port

from supervisor.client import Handle
from supervisor.model.states import State
from supervisor.store import AutopsyRecord
from supervisor.store.view import AutopsyFilter

T = TypeVar("T")

APP = "tests.programs.tasks_alerting:app"
WORKERS = 13
RECEIVERS = ("pager", "sms", "chat", "product", "deadman")
RULE_FILES = ("recording.rules.yml", "alerts.rules.yml", "slo.rules.yml")
#: How long a cause may take to be told, and its end: the longest window and hold are 40 s.
TOLD_S = 90.0
#: These would say that the node or its watchers are broken, which nothing here breaks.
NEVER = {
    "SupervisorDown", "SupervisorAbsent", "SupervisorMetricsMissing", "SupervisorLoopErrors",
    "SupervisorLoopStalled", "TaskStoreDown", "TaskStoreErrors", "CollectorFailing",
    "TelemetryDropped", "IllegalTransition", "CancelOverdue", "UnreapedChildren",
    "LostTasksNotSwept", "WorkerCrashLoop", "PoolHalted",
    "ConfigReloadFailed", "QueuePaused",
}  # fmt: skip

pytestmark = [pytest.mark.timeout(300), pytest.mark.alone]


class Pages:
    """`supervisor web` on the store of a node, asked with an API token."""

    def __init__(self, node: NodeUnderTest, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._token = node.cli_json("tokens", "create", "on-call", "--autopsies")["token"]
        env = {name: value for name, value in node.env.items() if name != MARKER}
        with (node.root / "web.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*COMMAND, "web", "--web-listen", f"127.0.0.1:{port}"],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def get(self, url: str) -> tuple[int, str, str]:
        """Follow a link as somebody who may; return status, where it led to, and the page."""
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.status, answer.url, answer.read().decode()

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(10) == 0


@dataclass(frozen=True)
class Scene:
    """Everything that takes part."""

    node: NodeUnderTest
    pages: Pages
    monitoring: Monitoring
    rules: Path

    def told(self, name: str, receiver: str, **labels: str) -> Told:
        """Wait until an alert is told to a receiver; return the first time."""

        def first() -> Told | None:
            found = [x for x in self.monitoring.webhook.of(name, **labels) if x.path == receiver]
            return next((one for one in found if one.status == "firing"), None)

        return self._in_time(first, f"{name} {labels} is told to {receiver}")

    def over(self, alert: Told) -> None:
        """Wait until it is told to be over."""
        name, labels = alert.name, {k: v for k, v in alert.labels.items() if k != "alertname"}

        def last() -> bool:
            found = self.monitoring.webhook.of(name, **labels)
            return [one for one in found if one.path == alert.path][-1].status == "resolved"

        self._in_time(last, f"{name} is over")

    def _in_time(self, cond: Callable[[], T], what: str) -> T:
        try:
            return eventually(cond, TOLD_S, what)
        except AssertionError as exc:
            alerts = self.monitoring.prometheus.api("/api/v1/alerts")["data"]["alerts"]
            now = sorted(f"{one['labels']['alertname']} {one['state']}" for one in alerts)
            told = [(one.name, one.path, one.status) for one in self.monitoring.webhook.told]
            raise AssertionError(f"{exc}; now {now}; told {told}") from None

    def newest(self, **wanted: str) -> AutopsyRecord:
        """Return the newest autopsy of a type and verdict."""
        found = self.node.reader.find_autopsies(AutopsyFilter(**wanted, limit=1)).autopsies
        return found[0][0]


@pytest.fixture(scope="module")
def scene(nursery: Any, monitoring: Monitoring) -> Iterator[Scene]:
    """A node, its pages, and the pair with the product's rules in quick motion."""
    node = nursery.make(APP, {"metrics_listen": monitoring.listen, "workers": WORKERS,
                              "timeout": 120, "on_heartbeat_lost": "capture"})  # fmt: skip
    port = free_port()
    with contextlib.ExitStack() as ending:
        ending.callback(lambda: nursery.close(node) and pytest.fail("the node left something"))
        node.start()
        pages = Pages(node, port)
        ending.callback(pages.stop)
        rules = node.root / "rules"
        hooks = [f"--receiver={name}={monitoring.webhook.url}/{name}" for name in RECEIVERS]
        done = node.cli("rules", "export", str(rules), "--web-url", pages.url, *hooks)
        assert done.returncode == 0, done.stderr
        routes = yaml.safe_load((rules / "alertmanager.yml").read_text())
        ending.callback(monitoring.use)
        monitoring.use(quick(rules), json.dumps(quick_rules.quick_routes(routes)), every="1s")
        seen = "scraped before anything happens"
        eventually(lambda: monitoring.prometheus.value('up{job="supervisor"}') == 1, 20, seen)
        yield Scene(node, pages, monitoring, rules)


def quick(rules: Path) -> list[Path]:
    """Write the rule files in quick motion beside the others."""
    made = []
    for name in RULE_FILES:
        content = quick_rules.quick_rules(yaml.safe_load((rules / name).read_text()))
        made.append(rules / f"quick-{name}")
        made[-1].write_text(json.dumps(content))
    return made


class Traffic:
    """Tasks that come again and again until their cause is taken away."""

    def __init__(self, scene: Scene) -> None:
        self._node = scene.node
        self._mails: list[Handle] = []
        self._over = {name: threading.Event() for name in ("billing", "mailing", "importing",
                                                           "reporting")}  # fmt: skip
        self._threads = [
            threading.Thread(target=self._repeat, args=one)
            for one in (
                ("billing", 0.25, lambda: self._submit("bills")),
                ("mailing", 0.5, self._cancel_one),
                ("importing", 0.8, lambda: self._submit("imports", s=1.7)),
                # More than all workers can take, also when the other causes are gone.
                ("reporting", 0.07, lambda: self._submit("reports", priority=1, s=1.0)),
            )
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        for name in self._over:
            self.end(name)
        for thread in self._threads:
            thread.join()

    def end(self, queue: str) -> None:
        """Take the cause away."""
        self._over[queue].set()

    def _submit(self, type_name: str, priority: int = 9, **params: Any) -> Handle:
        return self._node.submit(type_name, spec={"priority": priority}, **params)

    def _cancel_one(self) -> None:
        """Cancel what has started since the last time: what has not is no attempt."""
        self._mails.append(self._submit("mails"))
        for mail in [one for one in self._mails if one.view().started_at is not None]:
            mail.cancel(by="storm", reason="storm")
            self._mails.remove(mail)

    def _repeat(self, queue: str, every_s: float, act: Any) -> None:
        while not self._over[queue].wait(every_s):
            act()


def test_five_causes_are_told_with_a_link_and_are_over_when_they_are_gone(scene: Scene) -> None:
    began = time.monotonic()
    node, hook = scene.node, scene.monitoring.webhook
    evidence(scene)
    stopped = [node.submit("renders") for _ in range(2)]  # one alone would be no share
    for one in stopped:
        node.started(one)
    with Traffic(scene) as traffic:
        pids = [node.attempts(one.task_id)[0].pid for one in stopped]
        for pid in pids:
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)

        # Each cause is taken away as soon as it was told, so that their ends come meanwhile.
        share = scene.told("ZombieShareHigh", "/pager", severity="critical", notify="sms")
        by_text = scene.told("ZombieShareHigh", "/sms")
        follow(scene, share, {})
        for pid in pids:
            assert pid is not None
            os.kill(pid, signal.SIGCONT)
        zombie = scene.told("ZombieTasks", "/chat", kind="heartbeat_lost", severity="warning")
        follow(scene, zombie, {})
        failing = scene.told("TaskFailureRateHigh", "/chat", type="bills", severity="warning")
        follow(scene, failing, {"type": "bills"})
        traffic.end("billing")
        slow = scene.told("TaskRunningNearTimeout", "/chat", type="imports", severity="warning")
        follow(scene, slow, {"type": "imports", "verdict": "timeout"})
        traffic.end("importing")
        storm = scene.told("TaskCancelRateHigh", "/product", type="mails", route="product")
        follow(scene, storm, {"type": "mails", "verdict": "canceled"})
        traffic.end("mailing")
        growing = scene.told("TaskQueueGrowing", "/chat", queue="reporting", severity="warning")
        follow(scene, growing, {})
        traffic.end("reporting")
        for alert in (share, by_text, zombie, failing, slow, storm, growing):
            scene.over(alert)
    for one in stopped:
        one.cancel(by="tester", reason="seen")
    (told,) = {(one.path, one.status) for one in hook.of("Watchdog")}
    assert told == ("/deadman", "firing")
    assert NEVER & {one.name for one in hook.told} == set()
    assert scene.monitoring.prometheus.unhealthy_rules() == {}
    print(f"five causes, told and over: {time.monotonic() - began:.0f} s")


def evidence(scene: Scene) -> None:
    """Let a task of each type be killed with evidence, so that each link has something to show."""
    node = scene.node
    bill = node.app.submit({"type": "bills", "params": {"hangs": True}, "timeout": 1})
    late = node.submit("imports", s=30)
    deaf = node.app.submit({"type": "mails", "params": {"deaf": True}})
    node.started(deaf)
    deaf.cancel(by="tester", reason="deaf")
    ends = [handle.wait(30).state for handle in (bill, late, deaf)]
    assert ends == [State.TIMEOUT, State.TIMEOUT, State.CANCELED]


def follow(scene: Scene, alert: Told, wanted: Mapping[str, str]) -> None:
    """Require that the link of an alert leads to the newest autopsy that it is about."""
    asked = "&".join(f"{name}={value}" for name, value in wanted.items())
    link = alert.annotations["autopsy_url"]
    assert link == f"{scene.pages.url}/autopsies/latest" + (f"?{asked}" if asked else "")
    before = scene.newest(**wanted)
    status, url, page = scene.pages.get(link)
    assert status == 200
    assert url in {
        f"{scene.pages.url}/autopsies/{one.autopsy_id}" for one in (before, scene.newest(**wanted))
    }
    found = scene.node.reader.autopsy(url.rpartition("/")[2])
    assert found is not None
    assert found.task_id is not None
    assert found.task_id in page
    assert found.verdict in page
    assert Path(found.path).is_file()
