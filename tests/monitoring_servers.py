"""A Prometheus, an Alertmanager and a receiver of alerts, of a test's own (Debian's programs).

Secret kept here: their flags (a resend after 500 ms, no gossip port), how they are asked, and that
discovery takes the first 5 s of a Prometheus: a session starts one pair and gives nodes its port.
"""

from __future__ import annotations

import http.server
import json
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers import Server, ServerMissing, as_user, free_port

Labels = dict[str, str]
#: Often enough for what a test sets itself; a node on a busy host may need more time.
EVERY = "250ms"


class WebServer(Server):
    """A server that is asked by HTTP."""

    @property
    def url(self) -> str:
        """Return its base URL, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_ready(self) -> bool:
        """It says so itself."""
        try:
            return fetch(f"{self.url}/-/ready")[0] == 200
        except OSError:
            return False

    def api(self, path: str, /, **params: str | Sequence[str]) -> Any:
        """Return the JSON of an API path such as `/api/v1/rules`; an answer that is no 200 raises.

        A parameter `match` is sent as `match[]`.
        """
        named = {"match[]" if name == "match" else name: value for name, value in params.items()}
        status, body = fetch(f"{self.url}{path}?{urllib.parse.urlencode(named, doseq=True)}")
        if status != 200:
            raise AssertionError(f"{path} {params}: {status} {body}")
        return json.loads(body)

    def reload(self) -> None:
        """Read the files again; raises AssertionError when it refuses them."""
        status, body = fetch(f"{self.url}/-/reload", b"")
        assert status == 200, f"{body}\n{self.log[-2000:]}"


class Prometheus(WebServer):
    """A Prometheus; its configuration is `file`, which may be written anew before a reload."""

    @property
    def file(self) -> Path:
        """Return the path of its configuration."""
        return self.directory / "prometheus.yml"

    def query(self, expr: str, **params: str) -> list[tuple[Labels, float]]:
        """Return (labels, value) of each series of an instant query."""
        told = self.api("/api/v1/query", query=expr, **params)["data"]
        if told["resultType"] == "scalar":
            return [({}, float(told["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in told["result"]]

    def value(self, expr: str) -> float | None:
        """Return the value of the one series that the query finds; None when it finds none."""
        found = self.query(expr)
        assert len(found) <= 1, f"{expr}: {found}"
        return found[0][1] if found else None

    def firing(self) -> list[Labels]:
        """Return the labels of each alert that fires."""
        alerts = self.api("/api/v1/alerts")["data"]["alerts"]
        return [one["labels"] for one in alerts if one["state"] == "firing"]

    def unhealthy_rules(self) -> dict[str, str]:
        """Return the error of each rule whose last evaluation failed."""
        groups = self.api("/api/v1/rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return {
            rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] == "err"
        }

    def targets(self) -> list[dict[str, Any]]:
        """Return its active targets as its API tells of them."""
        told: list[dict[str, Any]] = self.api("/api/v1/targets")["data"]["activeTargets"]
        return told


class Alertmanager(WebServer):
    """An Alertmanager; its configuration is `file`, which may be written anew before a reload."""

    @property
    def file(self) -> Path:
        """Return the path of its configuration."""
        return self.directory / "alertmanager.yml"

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts it holds, the suppressed ones too, as its API tells of them."""
        told: list[dict[str, Any]] = self.api("/api/v2/alerts")
        return told


def start_prometheus(config: str, *flags: str) -> Prometheus:
    """Start a Prometheus on a configuration (its text); relative paths in it are of its directory.

    Raises ServerMissing.
    """
    program = _program("prometheus")
    directory, port = Path(tempfile.mkdtemp(prefix="prometheus-")), free_port()
    (directory / "prometheus.yml").write_text(config)
    command = [
        *(*as_user(None), program, f"--config.file={directory}/prometheus.yml"),
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
        *("--web.enable-remote-write-receiver", "--web.enable-lifecycle"),
        # What fires before the Alertmanager is found is else told a minute later.
        "--rules.alert.resend-delay=500ms",
        # For these an alert is held back for up to ten minutes after a start.
        *("--rules.alert.for-outage-tolerance=0s", "--rules.alert.for-grace-period=0s"),
        *("--log.level=warn", *flags),
    ]
    return Prometheus.started(command, port, directory)


def start_alertmanager(config: str, *flags: str) -> Alertmanager:
    """Start an Alertmanager on a configuration (its text). Raises ServerMissing."""
    program = _program("prometheus-alertmanager")
    directory, port = Path(tempfile.mkdtemp(prefix="alertmanager-")), free_port()
    (directory / "alertmanager.yml").write_text(config)
    command = [
        *(*as_user(None), program, f"--config.file={directory}/alertmanager.yml"),
        f"--storage.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",  # no gossip, no second port
        *("--log.level=warn", *flags),
    ]
    return Alertmanager.started(command, port, directory)


@dataclass(frozen=True, slots=True)
class Told:
    """One alert of one notification; `path` is where it was sent to."""

    at_mono: float
    path: str
    receiver: str
    status: str
    labels: Labels
    annotations: Labels

    @property
    def name(self) -> str:
        """Return the name of the alert."""
        return self.labels["alertname"]

    def is_about(self, name: str, labels: Mapping[str, str]) -> bool:
        """Say whether it is this alert, with these among its labels."""
        return self.name == name and labels.items() <= self.labels.items()


@dataclass(eq=False)
class Webhook:
    """What every receiver of an Alertmanager has been told, in order."""

    port: int
    told: list[Told] = field(default_factory=list)
    #: (path, headers, body) of each request.
    requests: list[tuple[str, Mapping[str, str], dict[str, Any]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Return its base URL; any path below it is taken."""
        return f"http://127.0.0.1:{self.port}"

    def of(self, name: str, /, **labels: str) -> list[Told]:
        """Return what was told of an alert with these labels."""
        return [one for one in list(self.told) if one.is_about(name, labels)]

    def take(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> None:
        """Keep one notification."""
        now = time.monotonic()
        self.requests.append((path, headers, body))
        for alert in body["alerts"]:
            said = (body["receiver"], alert["status"], alert["labels"], alert["annotations"])
            self.told.append(Told(now, path, *said))


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Run a receiver of notifications."""
    made: list[Webhook] = []

    class Receive(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            made[0].take(self.path, dict(self.headers), json.loads(self.rfile.read(length)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receive) as server:
        made.append(Webhook(server.server_address[1]))
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield made[0]
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True, eq=False)
class Monitoring:
    """The pair of a session; a node that listens at `listen` is scraped as job "supervisor"."""

    prometheus: Prometheus
    alertmanager: Alertmanager
    webhook: Webhook
    listen: str

    def use(
        self, rules: Sequence[Path] = (), routes: str | None = None, every: str = EVERY
    ) -> None:
        """Evaluate these rule files from now on, and route by this configuration (its text).

        Without a text everything is told at once to the receiver, at the path /all. `every` is
        the interval of scrapes, which is also how long one may take, and of evaluations.
        """
        config = _pair(self.listen, self.alertmanager.port, rules, every)
        self.prometheus.file.write_text(config)
        self.prometheus.reload()
        self.alertmanager.file.write_text(routes or _to_one(self.webhook.url))
        self.alertmanager.reload()


@contextmanager
def monitoring() -> Iterator[Monitoring]:
    """Run a pair without rules, and a receiver of all its alerts. Raises ServerMissing."""
    listen = f"127.0.0.1:{free_port()}"
    with webhook() as receiver:
        alertmanager = start_alertmanager(_to_one(receiver.url))
        try:
            prometheus = start_prometheus(_pair(listen, alertmanager.port))
            try:
                yield Monitoring(prometheus, alertmanager, receiver, listen)
            finally:
                prometheus.stop()
        finally:
            alertmanager.stop()


def fetch(url: str, body: bytes | None = None) -> tuple[int, str]:
    """Return (status, body) of a GET, or of a POST of a body; OSError when nobody answers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


def _pair(listen: str, alertmanager: int, rules: Sequence[Path] = (), every: str = EVERY) -> str:
    """Return the configuration of the Prometheus of a pair (JSON is YAML)."""
    return json.dumps(
        {
            "global": {
                "scrape_interval": every,
                "scrape_timeout": every,
                "evaluation_interval": every,
            },
            "rule_files": [str(path) for path in rules],
            "alerting": {
                "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]
            },
            "scrape_configs": [
                {"job_name": "supervisor", "static_configs": [{"targets": [listen]}]}
            ],
        }
    )


def _to_one(url: str) -> str:
    """Return the configuration of an Alertmanager that tells one receiver everything at once."""
    return json.dumps(
        {
            "route": {
                "receiver": "all",
                "group_by": ["..."],
                "group_wait": "0s",
                "group_interval": "1s",
            },
            "receivers": [{"name": "all", "webhook_configs": [{"url": f"{url}/all"}]}],
        }
    )


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServerMissing(f"{name} is not installed")
    return found
