"""The pair that other tests use: something scraped fires, is told, and is told to be over."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import eventually
from monitoring_servers import Monitoring

RULES = """
groups:
  - name: trial
    rules:
      - record: trial:doubled
        expr: trial_value * 2
      - alert: TrialHigh
        expr: trial:doubled > 2
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.queue }} is at {{ $value }}"}
"""


@pytest.fixture
def exposed(monitoring: Monitoring) -> Iterator[list[float]]:
    """One gauge at the address that is scraped."""
    values = [0.0]

    class Tell(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f'trial_value{{queue="q"}} {values[0]}\n'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    host, _, port = monitoring.listen.partition(":")
    with http.server.ThreadingHTTPServer((host, int(port)), Tell) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield values
        server.shutdown()
        thread.join()


def test_an_alert_reaches_the_receiver_and_ends_there(
    monitoring: Monitoring, exposed: list[float], tmp_path: Path
) -> None:
    rules = tmp_path / "trial.rules.yml"
    rules.write_text(RULES)
    monitoring.use([rules])
    try:
        prometheus, receiver = monitoring.prometheus, monitoring.webhook
        eventually(lambda: prometheus.value("trial:doubled") == 0.0, 15, "scraped and recorded")
        exposed[0] = 1.5
        (told,) = eventually(lambda: receiver.of("TrialHigh", queue="q"), 5, "it is told")
        assert (told.path, told.receiver, told.status) == ("/all", "all", "firing")
        assert told.annotations == {"summary": "q is at 3"}
        assert told.labels == {
            "alertname": "TrialHigh",
            "instance": monitoring.listen,
            "job": "supervisor",
            "queue": "q",
            "severity": "warning",
        }
        exposed[0] = 0.0
        eventually(lambda: receiver.of("TrialHigh")[-1].status == "resolved", 5, "it is over")
        assert prometheus.unhealthy_rules() == {}
        assert prometheus.firing() == []
    finally:
        monitoring.use()
