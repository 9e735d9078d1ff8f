"""Twenty people look at the same pages, which ask for their parts every few seconds: what it costs.

What is measured is the CPU of a process, and that of a page: a busy machine serves fewer of them.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import Browser, PagesUnderTest, pages

from bench.bulk import Rows, fill
from supervisor.model.access import Role

VIEWERS, WATCHED_S = 20, 5.0
ROOMS = ("/", "/tasks", "/queues", "/")
CORES_MOST = 0.2


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PagesUnderTest]:
    with pages(tmp_path, start=False) as made:
        fill(made.url, Rows(ended=20_000, pending=5_000))
        made.start()
        yield made


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_twenty_viewers_cost_a_fifth_of_a_core(site: PagesUnderTest) -> None:
    site.add_user("anna", Role.VIEWER)
    first = site.browser()
    first.sign_in("anna")
    texts = {room: first.get(room).text for room in ROOMS}
    every = {
        room: min((float(s) for s in re.findall(r'data-refresh="([\d.]+)"', text)), default=5.0)
        for room, text in texts.items()
    }
    assert site.process is not None
    over = threading.Event()
    took: list[float] = []

    def look(at: int) -> None:
        room = ROOMS[at % len(ROOMS)]
        browser = Browser(site.base, HX_Request="true")
        browser.cookies = first.cookies
        browser._opener = first._opener
        over.wait(every[room] * at / VIEWERS)
        while not over.is_set():
            began = time.monotonic()
            assert browser.get(room).code == 200
            took.append(time.monotonic() - began)
            over.wait(every[room] - took[-1])

    viewers = [threading.Thread(target=look, args=(at,)) for at in range(VIEWERS)]
    before = cpu_s(site.process.pid)
    for one in viewers:
        one.start()
    time.sleep(WATCHED_S)
    over.set()
    for one in viewers:
        one.join()
    page_s = (cpu_s(site.process.pid) - before) / len(took)
    used = page_s * sum(1 / every[ROOMS[at % len(ROOMS)]] for at in range(VIEWERS))
    took.sort()
    p95_ms = 1000 * took[int(0.95 * len(took))]
    print(f"{used:.3f} cores: {len(took)} pages, {1000 * page_s:.1f} ms each, p95 {p95_ms:.0f} ms")
    assert len(took) >= VIEWERS
    assert used <= CORES_MOST
