"""Take pictures of every page, of a live demo, into docs/pictures.

`make screenshots` runs this: it starts `supervisor demo --live`, waits until there is something of
everything to see, and opens each page in both themes and on a phone. --link takes pictures of pages
that are up already. Needs Chromium; pngquant, where there is one, makes the pictures small.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from supervisor.web.site import NAVIGATION, ROUTES

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = "/usr/bin/chromium"
LINK = re.compile(r"(http://\S+/sign-in\?token=\S+)")
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
#: Of a long page, this much is shown.
HEIGHT_MOST = 1500
COLORS = "48"
TASKS = "a[href*='/tasks/']"


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is looked at."""

    name: str
    scheme: str
    viewport: dict[str, int]


LOOKS = (Look("light", "light", DESK), Look("dark", "dark", DESK), Look("phone", "light", PHONE))


def main() -> int:
    """Do what the arguments say; returns 1 when a page had something wrong in its console."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    words.add_argument(
        "--link", help="the link that the pages have printed; without, a demo of ours"
    )
    words.add_argument(
        "--after", type=float, default=240, help="seconds that the demo works before"
    )
    words.add_argument(
        "names", nargs="*", help="of pages, as in the names of the files; all without"
    )
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.link:
        return _take_all(given.link, given.out, given.names)
    with _demo() as link:
        print(f"{link}; the demo works for {given.after:g} s first", flush=True)
        time.sleep(given.after)
        return _take_all(link, given.out, given.names)


@contextmanager
def _demo() -> Iterator[str]:
    """Start a live demo and return the link to its pages.

    It runs by a link, so that the paths in its evidence are not those of whoever took the pictures.
    """
    listen = ("--web-listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0")
    with tempfile.TemporaryDirectory(prefix="demo-") as room, tempfile.TemporaryFile("w+") as told:
        here = Path(room, "task-supervisor")
        here.symlink_to(ROOT)
        python = here / Path(sys.executable).relative_to(ROOT)
        process = subprocess.Popen(
            [python, "-m", "supervisor.cli", "demo", "--live", "--workers=4", *listen],
            cwd=room, env={**os.environ, "PYTHONPATH": str(here)}, stdout=told,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield _link(process, told)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(180)


def _link(process: subprocess.Popen[bytes], told: object) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        text = os.pread(told.fileno(), 1 << 20, 0).decode()  # type: ignore[attr-defined]
        if found := LINK.search(text):
            return found[1]
        time.sleep(0.2)
    sys.exit("the demo has printed no link to its pages")


def _take_all(link: str, out: Path, names: list[str]) -> int:
    wrong: list[str] = []
    with sync_playwright() as playwright:
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        try:
            paths = _paths(browser, link, names)
            for look in LOOKS:
                page = _page(browser, link, look, wrong)
                for name, path in paths.items():
                    if not names or name in names:
                        _take(page, path, out / f"page-{name}-{look.name}.png")
                if not names or "task-running" in names:
                    _take(
                        page,
                        _running(page, paths["tasks"]),
                        out / f"page-task-running-{look.name}.png",
                    )
        finally:
            browser.close()
    for text in dict.fromkeys(wrong):
        print(f"  {text[:300]}", flush=True)
    return 1 if wrong else 0


def _page(browser: Browser, link: str, look: Look, wrong: list[str]) -> Page:
    context = browser.new_context(
        viewport=look.viewport,  # type: ignore[arg-type]
        color_scheme=look.scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.on("console", lambda line: wrong.append(f"{page.url}: {line.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    page.goto(link)
    return page


def _paths(browser: Browser, link: str, names: list[str]) -> dict[str, str]:
    """Return name and address of every page: the rooms, and one of each kind that they lead to."""
    base = link[: link.index("sign-in")]
    rules = {route.name: route.rule for route in ROUTES if route.method == "GET"}
    rooms = {room.name: base + rules[room.name].lstrip("/") for room in NAVIGATION}
    page = browser.new_page()
    page.goto(link)
    found = {"sign-in": f"{base}sign-in", **rooms}
    found |= {name: base + rules[name].lstrip("/") for name in ("access", "autopsy_groups")}
    for name, room, query, selector in (
        (
            "task-canceled",
            "tasks",
            "?q=state:canceled+type:monthly_report",
            f"main td {TASKS}",
        ),
        ("task-failed", "tasks", "?q=state:failed,timeout", f"main td {TASKS}"),
        ("autopsy", "autopsies", "?verdict=timeout", "main td a[href*='/autopsies/']"),
    ):
        where = rooms.get(room, base + rules.get(room, "").lstrip("/"))
        page.goto(where + query)
        links = page.locator(selector)
        if links.count():
            found[name] = base + str(links.first.get_attribute("href")).lstrip("/")
        else:
            print(f"  nothing for {name}", flush=True)
    if not names or "bulk" in names:
        found["bulk"] = _act_on_many(page, rooms["tasks"])
    page.context.close()
    return found


def _running(page: Page, tasks: str) -> str:
    """Return the address of a task that runs and will for some seconds."""
    query = "?q=state:running+type:transfer,count_forever,ask_ledger,monthly_report"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        page.goto(tasks + query)
        links = page.locator(f"main td {TASKS}")
        if links.count():
            return tasks.removesuffix("tasks") + str(links.first.get_attribute("href")).lstrip("/")
    sys.exit("no task has run that takes a while")


def _act_on_many(page: Page, tasks: str) -> str:
    """Run all of a type again that failed; return the address of that act."""
    page.goto(f"{tasks}?q=state:failed,timeout+type:search_archive")
    page.get_by_label("all that this query finds").check()
    page.get_by_label("Reason").fill("the supplier is back")
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("button", name="Run again").click()
    page.wait_for_selector("#progress")
    return page.url


def _take(page: Page, path: str, target: Path) -> None:
    page.goto(path)
    page.wait_for_timeout(700)  # charts are drawn, the first refresh is through
    width = page.viewport_size["width"] if page.viewport_size else DESK["width"]
    height = int(page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, HEIGHT_MOST)}
    page.screenshot(path=target, full_page=True, clip=clip)  # type: ignore[arg-type]
    program = shutil.which("pngquant")
    if program is not None:
        subprocess.run(
            [
                program,
                "--force",
                "--ext=.png",
                "--speed=1",
                "--strip",
                "--nofs",
                COLORS,
                str(target),
            ],
            check=True,
        )
    print(f"{target.name}: {target.stat().st_size // 1024} KiB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
