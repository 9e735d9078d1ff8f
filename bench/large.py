"""What very many rows cost: 1,000,000 tasks that ended, 100,000 that wait, 10,000,000 audit rows.

Run as `python -m bench.large`; minutes, and some 3 GB of disk. Claims are timed beside those of a
store that holds only what is claimed, in turns, in the same run.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from bench import beside, place, rooms
from bench.bulk import LAST_MS, TRAIL, TYPES, Rows, count, ended_id, fill
from bench.figure import OUT as LATEST
from bench.figure import Figure, at_most, keep, quantile, table
from supervisor.model.record import Owner
from supervisor.model.states import State
from supervisor.store import Ledger, Reader, Store, TaskFilter, open_store
from supervisor.store.archive import Archive, Wanted
from supervisor.store.archive_search import ArchiveReader
from supervisor.store.schema import EPOCH

#: Tasks given out by one claim; claims that are timed, by turns, and some before that are not.
BATCH, CLAIMS, WARM_UP = 8, 300, 20
#: Of the tasks that wait, one in so many is due, on both stores.
DUE_EVERY = 3
#: Claims may be so much slower beside many rows.
AS_FAST = 1.2
ASKED = 200
#: How long writes are timed without the archive beside them.
ALONE_S = 3.0
OUT = LATEST.with_name("large.json")
AN_EMPTY_STORE = "an empty store"
NOW = EPOCH + timedelta(milliseconds=LAST_MS + 10**7)


@dataclass(slots=True)
class _Claims:
    """Claims on one store, timed."""

    store: Store
    took_ms: list[float] = field(default_factory=list)

    def do(self, claims: int) -> None:
        """Claim so often; all get what they ask for."""
        ledger = Ledger(self.store)
        owners = [Owner(f"w_{n}", n + 1, 1) for n in range(BATCH)]
        types = {f"type_{n}" for n in range(TYPES)}
        for _ in range(claims):
            began = time.perf_counter()
            with ledger.transaction() as tx:
                found = tx.claim(owners, node_id="bench", queues=None, types=types, now=NOW)
            self.took_ms.append((time.perf_counter() - began) * 1000)
            if len(found) != BATCH:
                raise RuntimeError(f"a claim of {BATCH} got {len(found)}")


def measure(here: place.Place, scale: float) -> Iterator[Figure]:
    """Fill a store and time what people and nodes do with it."""
    rows = Rows(
        ended=int(1_000_000 * scale),
        pending=int(100_000 * scale),
        workers=int(10_000 * scale),
        autopsies=int(10_000 * scale),
        due_every=DUE_EVERY,
    )
    claims = min(CLAIMS, int(1000 * scale))
    empty = here.below("empty")
    began = time.perf_counter()
    fill(here.store, rows)
    waiting = BATCH * (claims + WARM_UP) * DUE_EVERY
    fill(empty.store, Rows(pending=waiting, due_every=DUE_EVERY))
    if here.kind is not place.Kind.SQLITE:  # there nobody counts in earnest either
        count(here.store)
        count(empty.store)
    print(f"  filled in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    with (
        closing(open_store(here.store, create=False)) as large,
        closing(open_store(empty.store, create=False)) as small,
    ):
        yield from _claims(here.kind, _Claims(large), _Claims(small), claims)
        yield from _looks(here.kind, Reader(large), rows)
        yield from _archive(here, large, rows)


def _claims(kind: str, large: _Claims, small: _Claims, claims: int) -> Iterator[Figure]:
    for one in (large, small):
        one.do(WARM_UP)  # compiles statements, fills caches
        one.took_ms.clear()
    for _ in range(claims):
        for one in (large, small):
            one.do(1)
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        empty = quantile(small.took_ms, share)
        yield Figure(
            name=f"{kind}: a claim of {BATCH}, {name}",
            value=quantile(large.took_ms, share),
            unit="ms",
            floor=empty * (AS_FAST if name == "p50" else 2),
            at_most=True,
            peer=AN_EMPTY_STORE,
            peer_value=empty,
        )


def _looks(kind: str, reader: Reader, rows: Rows) -> Iterator[Figure]:
    ids = [ended_id(rows, random.randrange(rows.ended)) for _ in range(ASKED)]
    trails = [_ms(lambda one=one: _full(reader, one)) for one in ids]
    yield at_most(f"{kind}: one task's audit, the longest of {ASKED}", max(trails), "ms", 100)
    yield at_most(f"{kind}: one task's audit, p50", statistics.median(trails), "ms", 10)
    for name, wanted in (
        ("newest page", TaskFilter()),
        ("page of a state", TaskFilter(states=(State.FAILED,))),
        ("page of a type", TaskFilter(types=("type_7",))),
        ("page of a search", TaskFilter(text="nothing like it")),
    ):
        took = [_ms(lambda wanted=wanted: reader.tasks(wanted)) for _ in range(5)]
        yield at_most(f"{kind}: {name}", statistics.median(took), "ms", 150)
    took = [_ms(lambda: reader.counts(NOW)) for _ in range(3)]
    yield at_most(f"{kind}: count of all tasks by state", statistics.median(took), "ms", 1000)


def _full(reader: Reader, task_id: str) -> None:
    if len(reader.history(task_id)) != TRAIL:
        raise RuntimeError(f"{task_id} has not {TRAIL} audit rows")


def _archive(here: place.Place, store: Store, rows: Rows) -> Iterator[Figure]:
    folder, tasks = here.folder / "archive", rows.ended // 50
    long_ago = NOW - timedelta(days=999)
    wanted = Wanted(now=NOW, ended_before=NOW, audit_before=long_ago, tasks_max=tasks)
    with beside.writing(here.store) as alone_ms:
        time.sleep(ALONE_S)
    with beside.writing(here.store) as waits_ms:
        began = time.perf_counter()
        done = Archive(Ledger(store), folder, by="bench").move(wanted)
        took = time.perf_counter() - began
    if done.deleted_tasks != tasks:
        raise RuntimeError(f"{done.deleted_tasks} of {tasks} tasks were archived")
    kind, oldest = here.kind, ended_id(rows, 0)
    yield Figure(name=f"{kind}: tasks archived", value=tasks / took, unit="/s", floor=500)
    alone = quantile(alone_ms, 0.99)
    yield Figure(
        name=f"{kind}: a write beside the archive, p99",
        value=quantile(waits_ms, 0.99),
        unit="ms",
        floor=max(50.0, 2 * alone),
        at_most=True,
        peer="without it",
        peer_value=alone,
    )
    found = [_ms(lambda: _cold(folder, oldest)) for _ in range(5)]
    yield at_most(f"{kind}: a task found in cold files", statistics.median(found), "ms", 100)


def _cold(folder: Path, task_id: str) -> None:
    if ArchiveReader(folder).task(task_id) is None:
        raise RuntimeError(f"{task_id} is not in {folder}")


def _ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def main() -> int:
    """Measure on each kind of store, print the table, keep the list; 1 when a budget is missed."""
    kinds = (place.Kind.SQLITE, place.Kind.POSTGRESQL)
    parser = argparse.ArgumentParser(prog="python -m bench.large", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*kinds, []], help="which stores (both)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--pages", action="store_true", help="only the pages")
    options = parser.parse_args()
    figures: list[Figure] = []
    scale = 0.1 if options.quick else 1.0
    for kind in options.kinds or kinds:
        for what in (rooms.measure,) if options.pages else (measure, rooms.measure):
            print(f"measuring {kind} …", file=sys.stderr)
            with place.made(kind) as here:
                figures += what(here, scale)
    print(table(figures))
    print(f"kept in {keep(figures, OUT).relative_to(Path.cwd())}", file=sys.stderr)
    return 0 if options.quick or all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
