"""How long every page takes on a large store, and what twenty people cost who look at them.

The pages are those of the site itself, so that a new room is measured without a word here; where an
address names something, it is something of the store. A node runs beside and says what it sees.
Pages are as people meet them, who share what is dear to count; the first one of all is told apart.
"""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from bench import idle, node, place
from bench.bulk import Rows, count, ended_id, fill
from bench.figure import Figure, at_most, quantile
from supervisor.store import Ledger, Reader, Store, open_store
from supervisor.store.bulk import BulkDesk
from supervisor.web.site import ROUTES

PAGE_MS, CORES, LAG_MS = 150.0, 0.2, 20.0
#: Rounds over all pages; in each every page is asked once, and what is quick to read is old again.
ROUNDS, ROUND_S = 40, 1.1
VIEWERS, WATCHED_S, LOOK_S = 20, 40.0, 5.0
#: The last task has ended this long ago: meanwhile the store was filled.
BEFORE_S = 120
#: What the act on many is about: some tasks of the last minutes; how long it may take.
OF_THE_ACT, ACT_S = "state:timeout ended:<10m", 60.0
#: Not pages: files, and what only leads on.
NO_PAGES = frozenset({"audit_file", "tasks_file", "report", "bundle", "latest"})
#: Lists that are asked for in other ways too.
ASKED = ("/tasks?state=FAILED", "/tasks?type=type_7", "/tasks?q=state%3AFAILED+type%3Atype_7")


@dataclass(slots=True)
class Site:
    """The pages' process, and somebody who was let in."""

    process: subprocess.Popen[str]
    base: str
    link: str
    took_ms: dict[str, list[float]] = field(default_factory=dict)
    _opener: urllib.request.OpenerDirector = field(init=False)

    def __post_init__(self) -> None:
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)
        self.get(f"{self.link}&next=/healthz")

    def get(self, url: str, *, keeps: str = "") -> str:
        """Ask for a page; return it, '' where it is none. Raises: HTTPError."""
        began = time.perf_counter()
        with self._opener.open(url, timeout=30) as answer:
            text: str = answer.read().decode()
            is_page = answer.headers.get_content_type() == "text/html"
        if keeps:
            self.took_ms.setdefault(keeps, []).append((time.perf_counter() - began) * 1000)
        return text if is_page else ""


def measure(here: place.Place, scale: float) -> Iterator[Figure]:
    """Fill a store up to now, time every page, then let people look at all of them."""
    rows = Rows(
        ended=int(1_000_000 * scale),
        pending=int(100_000 * scale),
        workers=int(10_000 * scale),
        autopsies=int(10_000 * scale),
        last_ms=int((time.time() - BEFORE_S) * 1000),
    )
    fill(here.store, rows)
    if here.kind is not place.Kind.SQLITE:
        count(here.store)
    port = node.free_port()
    with node.running(here, port=port) as process:
        node.wait_ready(process, port)
        with closing(open_store(here.store, create=False)) as store:
            _say_much(store)
        with _served(here) as site:
            _first(site)
            paths = _pages(site, rows, _act(here))
            yield from _each(here.kind, site, paths, max(1, int(ROUNDS * scale)))
            url = f"http://127.0.0.1:{port}/metrics"
            yield from _viewers(here.kind, site, paths, url, max(3.0, WATCHED_S * scale))


@contextmanager
def _served(here: place.Place) -> Iterator[Site]:
    command = [sys.executable, "-m", "supervisor", "web", "--json"]
    env = {**os.environ, "SUPERVISOR_STORE": here.store, "SUPERVISOR_WEB_LISTEN": "127.0.0.1:0"}
    with (here.folder / "web.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=node.ROOT, env=env, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    try:
        said = json.loads(process.stdout.readline())
        yield Site(process, said["url"].rstrip("/"), said["link"])
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def _say_much(store: Store) -> None:
    """Let the node have said every five seconds for an hour what it has said once."""
    reader, ledger = Reader(store), Ledger(store)
    (one,) = [found for found in reader.nodes() if found.ended_at is None]
    workers = [
        {
            "slot": at, "worker_id": worker.worker_id, "pid": worker.pid, "state": "idle",
            "rss": 30_000_000 + 1000 * at, "cpu_s": 10.0, "fds": 12, "heartbeat_age_s": 0.1,
            "task_id": None, "attempt": None, "since_progress_s": None, "progress": None,
            "verdict": None,
        }
        for at, worker in enumerate(reader.workers(one.node_id))
    ]  # fmt: skip
    itself = {
        "cpu_s": 100.0, "rss": 80_000_000, "loop_lag_s": 0.001, "stage": "running",
        "workers_desired": len(workers), "workers_alive": len(workers),
        "zombies": {"stalled": 0, "heartbeat_lost": 0, "orphan": 0},
    }  # fmt: skip
    document = json.dumps({"node": itself, "workers": workers * 4})
    now = store.clock.now()
    with ledger.transaction() as tx:
        for back in range(5, 3600, 5):
            tx.vitals.write(one.node_id, now - timedelta(seconds=back), document)


def _first(site: Site) -> None:
    """Ask for the first page before anybody has: all that is counted is counted while it waits."""
    site.get(f"{site.base}/", keeps="first")
    told = f"{site.took_ms.pop('first')[0]:.0f} ms, without a budget"
    print(f"  /, the first page ever of a process: {told}", file=sys.stderr)


def _act(here: place.Place) -> str:
    """Let the pages' process carry out an act on many; return its id."""
    with closing(open_store(here.store, create=False)) as store:
        desk = BulkDesk(store, lambda _: None)
        begun = desk.begin("rerun", OF_THE_ACT, by="bench", reason="to be looked at")
        give_up = time.monotonic() + ACT_S
        while (act := desk.get(begun.bulk_id)) is None or act.ended_at is None:
            if time.monotonic() > give_up:
                raise RuntimeError(f"an act on {OF_THE_ACT} is not over after {ACT_S:.0f} s")
            time.sleep(0.1)
    return begun.bulk_id


def _pages(site: Site, rows: Rows, bulk_id: str) -> list[str]:
    """Return the address of every page; of those that name something, one that is there."""
    group = re.search(
        r"/autopsies/groups/([0-9a-f]{16})", site.get(f"{site.base}/autopsies/groups")
    )
    known: Mapping[str, str] = {
        "task_id": ended_id(rows, rows.ended // 2),
        "autopsy_id": f"a_{rows.autopsies // 2:016x}",
        "bulk_id": bulk_id,
        "key": group[1] if group else "",
    }
    paths: list[str] = []
    for route in ROUTES:
        names = re.findall(r"<(?:\w+(?:\([^)]*\))?:)?(\w+)>", route.rule)
        if route.method != "GET" or route.needs is None or route.name in NO_PAGES:
            continue
        if unknown := [name for name in names if name not in known]:
            print(f"  not asked for: {route.rule} ({', '.join(unknown)})", file=sys.stderr)
            continue
        paths.append(re.sub(r"<(?:[^<>:]*:)?(\w+)>", lambda found: known[found[1]], route.rule))
    return [path for path in (*paths, *ASKED) if _is_there(site, path)]


def _is_there(site: Site, path: str) -> bool:
    try:
        return bool(site.get(site.base + path))
    except urllib.error.HTTPError as exc:
        exc.close()
        print(f"  {path} answers {exc.code}", file=sys.stderr)
        return False


def _each(kind: str, site: Site, paths: list[str], rounds: int) -> Iterator[Figure]:
    spent: Counter[str] = Counter()
    for _ in range(rounds):
        began = time.perf_counter()
        for path in paths:
            before = _cpu_s(site)
            site.get(site.base + path, keeps=path)
            spent[path] += _cpu_s(site) - before
        time.sleep(max(0.0, ROUND_S - (time.perf_counter() - began)))
    for path in paths:
        took = site.took_ms[path]
        shown = re.sub(r"(task_|bulk_)?[0-9a-f]{32}|(a_)?[0-9a-f]{16}", "…", path)
        half, cpu_ms = statistics.median(took), spent[path] / rounds * 1000
        told = f"p50 {half:.0f} ms, most {max(took):.0f} ms, {cpu_ms:.0f} ms of CPU"
        print(f"  {shown}: {told}", file=sys.stderr)
        yield at_most(f"{kind}: GET {shown}, p95", quantile(took, 0.95), "ms", PAGE_MS)


def _viewers(
    kind: str, site: Site, paths: list[str], url: str, watched_s: float
) -> Iterator[Figure]:
    """Let people look at one page after the other, each every few seconds."""
    over, took = threading.Event(), []
    site.took_ms.clear()

    def look(at: int) -> None:
        over.wait(LOOK_S * at / VIEWERS)
        while not over.is_set():
            began = time.perf_counter()
            site.get(site.base + paths[at % len(paths)])
            took.append((time.perf_counter() - began) * 1000)
            over.wait(LOOK_S - (time.perf_counter() - began))

    viewers = [threading.Thread(target=look, args=(at,)) for at in range(VIEWERS)]
    lag, spent, began = idle.late_turns(url), _cpu_s(site), time.perf_counter()
    for one in viewers:
        one.start()
    time.sleep(watched_s)
    cores = (_cpu_s(site) - spent) / (time.perf_counter() - began)
    lag_ms = idle.p99_ms(lag, idle.late_turns(url))
    over.set()
    for one in viewers:
        one.join()
    yield at_most(f"{kind}: {VIEWERS} viewers, the pages' process", cores, "cores", CORES)
    yield at_most(f"{kind}: {VIEWERS} viewers, a page, p95", quantile(took, 0.95), "ms", PAGE_MS)
    yield at_most(f"{kind}: {VIEWERS} viewers, loop lag of the node, p99", lag_ms, "ms", LAG_MS)


def _cpu_s(site: Site) -> float:
    return node.exact_cpu_s(site.process.pid)
