"""Draw the dashboards with Grafana's libraries, and put the pictures into docs/pictures.

`make dashboards-preview` builds the page (tools/dashboard-preview) and runs this. Without --url it
draws three hours of made-up history; with it, what a Prometheus has of the last minutes. Needs
Prometheus, Chromium and node, of Debian; pngquant, where there is one, makes the pictures small.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml
from playwright.sync_api import Browser, ConsoleMessage, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import backfill  # noqa: E402  (what the tests fill a Prometheus with)
import grafana  # noqa: E402
import history  # noqa: E402

from supervisor.monitoring import export  # noqa: E402
from supervisor.monitoring.threshold import Thresholds  # noqa: E402

PAGE = ROOT / "tools" / "dashboard-preview" / "dist"
CHROMIUM = "/usr/bin/chromium"
WIDTH = 1600
SETTLE_MS = 600
MOST_BYTES = 150_000


def main() -> int:
    """Draw what the arguments say; returns 1 when a panel is empty or could not be drawn."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    words.add_argument(
        "--url", help="a Prometheus that scrapes nodes, such as http://127.0.0.1:9090"
    )
    words.add_argument("--minutes", type=float, default=180, help="how far back is drawn")
    words.add_argument("--ago", type=float, default=0, help="with --url: minutes ago it ends")
    words.add_argument("--scrape", type=int, default=30, help="seconds between scrapes")
    words.add_argument("names", nargs="*", help="of dashboards; all without")
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    files = sorted((ROOT / "dashboards").glob("*.json"))
    chosen = [one for one in files if not given.names or one.stem in given.names]
    with _prometheus(given) as (prometheus, end):
        window = grafana.Window(end - int(given.minutes * 60), end, given.scrape)
        return 1 if sum(_draw_all(chosen, prometheus, window, given.out)) else 0


@contextmanager
def _prometheus(given: argparse.Namespace) -> Iterator[tuple[Any, int]]:
    if given.url:
        yield grafana.Remote(given.url), int(time.time() - 60 * given.ago)
        return
    past = backfill.past(history.history(given.minutes / 60, given.scrape))
    try:
        texts = export.rule_texts(None, Thresholds()).values()
        rules = backfill.rules_of(yaml.safe_load(text) for text in texts)
        past.record(rules)
        past.alarm(rules)
        yield past.prometheus, past.span.end
    finally:
        past.stop()


def _draw_all(
    files: list[Path], prometheus: Any, window: grafana.Window, out: Path
) -> Iterator[int]:
    with _served(PAGE) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            for file in files:
                dashboard = json.loads(file.read_text())
                shown = {
                    "dashboard": dashboard,
                    "answers": grafana.answers(prometheus, dashboard, window),
                    "from": window.start,
                    "to": window.end,
                    "steps": {
                        panel["id"]: window.of(panel["targets"][0]).step_s
                        for panel in grafana.panels(dashboard)
                    },
                }
                target = out / f"dashboard-{file.stem}.png"
                problems = _draw(browser, address, shown, target)
                if target.stat().st_size > MOST_BYTES:
                    problems = _draw(browser, address, shown, target, scale=0.8)
                yield problems
        finally:
            browser.close()


def _draw(
    browser: Browser, address: str, shown: Mapping[str, Any], target: Path, scale: float = 1
) -> int:
    page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, device_scale_factor=scale)
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda line: said.append(line.text) if _is_worth_telling(line) else None)
    page.add_init_script(f"window.preview = {json.dumps(shown)}")
    page.goto(address)
    page.wait_for_function(
        "window.drawn?.problems.length || (window.drawn?.started && !window.drawn.left)"
    )
    page.wait_for_timeout(SETTLE_MS)
    height = page.evaluate("document.getElementById('root').scrollHeight")
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=target)
    problems = page.evaluate("window.drawn.problems")
    empty = page.evaluate(
        "[...document.querySelectorAll('.nothing')]"
        ".map((one) => one.closest('[data-title]').dataset.title)"
    )
    page.close()
    _shrink(target)
    print(f"{target.name}: {target.stat().st_size // 1024} KiB, {height} px", flush=True)
    for text in (*problems, *(f"empty: {title}" for title in empty), *dict.fromkeys(said)):
        print(f"  {text[:600]}", flush=True)
    return len(problems) + len(empty)


def _is_worth_telling(line: ConsoleMessage) -> bool:
    """Fonts and icons that Grafana's server would have are none of ours: the host's do as well."""
    return line.type == "error" and "/public/" not in line.location["url"]


def _shrink(picture: Path) -> None:
    """Take away colours until the picture is small enough for the documents."""
    program = shutil.which("pngquant")
    whole = picture.read_bytes()
    for colors in () if program is None else (64, 32, 16):
        picture.write_bytes(whole)
        words = ["--force", "--ext=.png", "--speed=1", "--strip", "--nofs", str(colors)]
        subprocess.run([str(program), *words, str(picture)], check=True)
        if picture.stat().st_size <= MOST_BYTES:
            return


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    if not (folder / "index.html").exists():
        sys.exit(f"{folder} is not built: run make dashboards-preview")
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    sys.exit(main())
