"""Run `supervisor demo --live` under a Prometheus and draw the dashboards of it.

`make dashboards-live` runs this. Everything is of its own and goes with it: the demo's store, a
Prometheus of Debian on a free port, with the rules of alerts/. Before it draws, some figures are
asked both of Prometheus, as the dashboards do, and of the store, as `supervisor top` does.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import grafana  # noqa: E402  (what Grafana does with a query)
import monitoring_servers  # noqa: E402  (how the tests start a Prometheus)
from servers import free_port  # noqa: E402

SUPERVISOR = (sys.executable, "-m", "supervisor.cli")
STOPS_WITHIN_S = 30
TRIES = 5
#: Of which rates over minutes make too much: not drawn.
BEGINNING_S = 60
#: By how much both may differ: they are not asked at the same moment, and a quantile of a histogram
#: is as exact as its buckets. By title: a number, a share of it.
MARGINS = {"Failed": (0.005, 0.05), "Canceled": (0.005, 0.05), "p99 run time": (1, 0.6)}
#: What the store tells of the last 10 minutes, and how a dashboard asks for it.
ENDED = 'sum(increase(supervisor_tasks_finished_total{outcome="%s"}[10m]))'
OUTCOMES = ("success", "failed", "timeout", "canceled")


def main() -> int:
    """Do what the arguments say; returns 1 when a panel is empty or figures do not agree."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "live")
    words.add_argument("--minutes", type=float, default=15, help="how long the demo works")
    words.add_argument("--scrape", type=int, default=3, help="seconds between scrapes")
    words.add_argument("names", nargs="*", help="of dashboards; all without")
    given = words.parse_args()
    listen = f"127.0.0.1:{free_port()}"
    prometheus = monitoring_servers.start_prometheus(_config(listen, given.scrape))
    try:
        with _demo(listen) as store:
            print(f"{prometheus.url} looks at {store} for {given.minutes:g} min", flush=True)
            time.sleep(BEGINNING_S + given.minutes * 60)
            for _ in range(TRIES):
                if not (strange := list(_disagreements(prometheus, store))):
                    break
                time.sleep(given.scrape)
            drawing = _draw(prometheus.url, given)
    finally:
        prometheus.stop()
    for text in strange:
        print(f"  {text}")
    return 1 if strange or drawing else 0


@contextmanager
def _demo(listen: str) -> Iterator[str]:
    """Run the demo; gives the address of its store."""
    command = [*SUPERVISOR, "demo", "--live", "--metrics-listen", listen]
    with tempfile.TemporaryFile("w+") as said:
        demo = subprocess.Popen(command, stdout=said)
        try:
            while not (found := re.search(r"sqlite:\S+", _read(said))):
                assert demo.poll() is None, "the demo did not start"
                time.sleep(0.2)
            yield found[0]
        finally:
            demo.send_signal(signal.SIGTERM)  # SIGINT is ignored by what a script has put behind it
            demo.wait(STOPS_WITHIN_S)
            print("\n".join(_read(said).splitlines()[-2:]), flush=True)


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _config(listen: str, scrape_s: int) -> str:
    every = f"{scrape_s}s"
    rules = sorted((ROOT / "alerts").glob("*.rules.yml"))
    job = {"job_name": "supervisor", "static_configs": [{"targets": [listen]}]}
    return json.dumps(
        {
            "global": {"scrape_interval": every, "evaluation_interval": every},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [job],
        }
    )


def _draw(url: str, given: argparse.Namespace) -> int:
    preview = [sys.executable, str(ROOT / "tools" / "preview_dashboards.py"), "--url", url]
    window = ["--minutes", str(given.minutes), "--scrape", str(given.scrape)]
    return subprocess.call([*preview, *window, "--out", str(given.out), *given.names])


def _disagreements(prometheus: monitoring_servers.Prometheus, store: str) -> Iterator[str]:
    """Print figures of both sides; yield those that differ by more than the moment explains."""
    top = json.loads(subprocess.check_output([*SUPERVISOR, "top", "--store", store, "--json"]))
    rates = top["numbers"]
    told = {
        "Nodes": len(top["nodes"]),
        "In queue": top["in_queue"],
        "Running": top["by_state"]["RUNNING"],
        "Zombies": rates["zombies_lost"],
        "p99 run time": rates["running_duration_p99_seconds"],
        "Failed": rates["failed_rate"],
        "Canceled": rates["canceled_rate"],
        **{f"ended: {outcome}": rates[outcome] for outcome in OUTCOMES},
    }
    for what, in_store in told.items():
        shown = _shown(prometheus, what)
        print(f"  {what:<15} store {in_store:>9.3f}   dashboard {shown:>9.3f}", flush=True)
        margin, share = MARGINS.get(what, (3, 0.03))
        if abs(in_store - shown) > max(margin, share * in_store):
            yield f"{what}: {in_store:g} in the store, {shown:g} on the dashboard"


def _shown(prometheus: monitoring_servers.Prometheus, what: str) -> float:
    """Return what the overview shows in the panel of this title, or the ended of 10 minutes."""
    if what.startswith("ended: "):
        return prometheus.value(ENDED % what.removeprefix("ended: ")) or 0.0
    overview = json.loads((ROOT / "dashboards" / "overview.json").read_text())
    panel = next(one for one in grafana.panels(overview) if one["title"] == what)
    expr = grafana.put_in(panel["targets"][0]["expr"], {"job": ".+", "instance": ".+"})
    return prometheus.value(expr) or 0.0


if __name__ == "__main__":
    sys.exit(main())
