"""Thousands of workers that live for one task each, on one node that is scraped all the while.

Secret kept here: what a scraper sees of it, when the node counts as warm, and how much may differ.
Each life is a process, a row, descriptors, shared memory, and series of a slot that others had.
"""

from __future__ import annotations

import statistics
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness import NodeUnderTest, eventually
from machine import slowness
from storm import live

WORKERS = 4
EVERY_S = 0.5
#: The first quarter of the lives is warm-up: caches, arenas and buckets grow to their size.
WARM = 0.25
#: What the node may have more of at the end than when it was warm: SQLite remembers up to 2 MB of
#: pages for each of five connections, and a longer trail fills that.
RSS_MOST_KIB = 6 * 1024
#: A scrape of the idle node at the end, on a quiet machine; and how much longer one may take beside
#: the births of workers than it took when the node was warm.
SCRAPE_S, SLOWER = 0.050, 1.5
CHUNK, BACKLOG = 200, 400
PATIENCE_S = 300.0


@dataclass(frozen=True)
class Look:
    """One scrape, and what the node holds then; `series` are those of no slot."""

    lives: int
    took_s: float
    series: int
    slots: int
    rss_kib: int


def grown(looks: Sequence[Look], lives: int) -> list[str]:
    """Say what a scraper sees more of at the end than when the node was warm."""
    warm = [one for one in looks if WARM * lives <= one.lives < 2 * WARM * lives]
    last = [one for one in looks if one.lives >= (1 - WARM) * lives]
    if not warm or not last:
        return ["the lives were over before they were looked at"]
    found = []
    before, now = (max(one.series for one in part) for part in (warm, last))
    if now > before:
        found.append(f"grown: series were {before} when warm, are {now}")
    before, now = (_middle(part, "rss_kib") for part in (warm, last))
    if now - before > RSS_MOST_KIB:
        found.append(f"grown: RSS was {before:g} KiB when warm, is {now:g} KiB")
    before, now = (_middle(part, "took_s") for part in (warm, last))
    if now > max(SCRAPE_S, SLOWER * before):
        found.append(f"grown: a scrape took {before:.3f} s when warm, takes {now:.3f} s")
    return found


def _middle(looks: Sequence[Look], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in looks))


class Lives:
    """So many lives, one task each."""

    SETTINGS: ClassVar[Mapping[str, object]] = {"workers": WORKERS, "recycle_after_tasks": 1}

    def __init__(self, number: int, tell: Callable[[str, int, int], None]) -> None:
        self._number = number
        self._tell = tell
        self._looks: list[Look] = []
        self._took_s = 0.0
        self._idle_s = self._slowness = 0.0
        self._born = 0
        self._states: dict[str, int] = {}
        self._over = threading.Event()

    def on(self, node: NodeUnderTest) -> None:
        """Do all of it on a running node."""
        began = time.monotonic()
        scraper = threading.Thread(target=self._scrape, args=(node,))
        scraper.start()
        try:
            for start in range(0, self._number, CHUNK):
                size = min(CHUNK, self._number - start)
                node.app.submit_many([{"type": "noop"}] * size)
                eventually(lambda: live(node) <= BACKLOG - CHUNK, PATIENCE_S, "room for more")
                self._tell("lives", min(start + size, self._number - 1), self._number)
            eventually(lambda: live(node) == 0, PATIENCE_S, "all have lived")
        finally:
            self._over.set()
            scraper.join()
        self._took_s = time.monotonic() - began
        self._rest(node)
        self._states = dict(node.query("SELECT state, count(*) FROM tasks GROUP BY state"))

    def _rest(self, node: NodeUnderTest) -> None:
        """Look at the idle node."""
        url, looks = f"http://{node.listen}/metrics", []
        for _ in range(7):
            time.sleep(EVERY_S)
            looks += _look(url, node.pid)
        self._idle_s, self._slowness = min(one.took_s for one in looks), slowness()
        self._looks += looks[-1:]
        self._born = looks[-1].lives

    def _scrape(self, node: NodeUnderTest) -> None:
        url = f"http://{node.listen}/metrics"
        while not self._over.wait(EVERY_S):
            self._looks += _look(url, node.pid)

    def violations(self) -> list[str]:
        """Say everything that has grown, and what did not live or end as it should."""
        found = grown(self._looks, self._number)
        if self._states != {"SUCCESS": self._number}:
            found.append(f"lost: {self._number} were to be SUCCESS, {self._states} are")
        if self._born < self._number:
            found.append(f"lives: {self._number} were to be, {self._born} workers were born")
        if (slots := max(one.slots for one in self._looks)) > WORKERS:
            found.append(f"grown: {slots} places have series, {WORKERS} are there")
        if self._idle_s > SCRAPE_S * self._slowness:
            found.append(f"slow: a scrape of the idle node takes {self._idle_s:.3f} s")
        return found

    def figures(self) -> dict[str, Any]:
        """Return what was measured."""
        tenths = [
            self._looks[len(self._looks) * at // 10 : len(self._looks) * (at + 1) // 10]
            for at in range(10)
        ]
        return {
            "workers_born": self._born,
            "took_s": round(self._took_s, 1),
            "scrapes": len(self._looks),
            "series": sorted({one.series for one in self._looks}),
            "slots": max(one.slots for one in self._looks),
            "rss_kib": [int(_middle(part, "rss_kib")) for part in tenths if part],
            "scrape_ms": [round(1000 * _middle(part, "took_s"), 1) for part in tenths if part],
            "scrape_ms_idle": round(1000 * self._idle_s, 1),
        }


def _look(url: str, pid: int) -> list[Look]:
    """Scrape once; an answer that does not come is none."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except (OSError, urllib.error.URLError):
        return []
    took_s = time.monotonic() - began
    born = (line for line in lines if line.startswith("supervisor_worker_spawns_total{"))
    lives = sum(float(line.rpartition(" ")[2]) for line in born)
    samples = [line for line in lines if not line.startswith("#")]
    # A place has no series while nobody is at it; at most WORKERS have some.
    series = sum('slot="' not in line for line in samples)
    slots = {line.partition('slot="')[2].partition('"')[0] for line in samples} - {""}
    return [Look(int(lives), took_s, series, len(slots), _rss_kib(pid))]


def _rss_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])
