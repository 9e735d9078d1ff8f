"""What lists of tasks, dead letters and acts on many ask of a store with very many rows.

The rule: whatever is asked, a page tests no more than a window of each stream, read in the order of
an index, and never reads a table, or an index of all its rows, from one end to the other. What only
an index has to answer reads no more than a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import servers
from large_store import asked_on_file, asked_on_server, filled_database, filled_file
from statements import Sent, Wire

from bench.bulk import LAST_MS, Rows, ended_id
from supervisor.model.query import parse
from supervisor.store import Store, TaskFilter, search
from supervisor.store.bulk import STEP, BulkDesk
from supervisor.store.dead import WINDOW as DEAD_WINDOW
from supervisor.store.dead import DeadBook
from supervisor.store.listing import Listing
from supervisor.store.reader import Reader
from supervisor.store.schema import from_micros

SIZE = Rows(ended=60_000, pending=3_000)
BIG = frozenset({"tasks", "attempts", "audit_log"})

#: Rows of one table that may be looked at, and steps of SQLite, by what is asked for.
PAGE, STEPS_PAGE = 700, 20_000
WINDOW, STEPS_WINDOW = 2 * search.WINDOW + PAGE, 1_600_000
OF_ATTEMPTS, STEPS_OF_ATTEMPTS = 2 * search.WINDOW_OF_ATTEMPTS + PAGE, 600_000
BY_INDEX = (
    "", "state:failed", "state:failed,timeout", "-state:success", "type:type_3",
    "type:type_3,type_4", "state:running",
)  # fmt: skip
TESTED = (
    "queue:queue_9", "-queue:queue*", "type:type_1*", "type:type_1 state:pending,success tag:t",
    "tag:t", "by:ann", "by:a*", "reason:oom_killed", "submitted:>2h priority:9", "due:later by:x",
    "ended:<1m", "attempts:>5", "retries:>5", "quarantined:yes", "key:*", "parent:*", "nothing",
    "-state:pending key:*", "type:type_3 state:failed by:ann",
)  # fmt: skip
OF_ATTEMPT = (
    "verdict:*", "error:Nothing", "message:refused", 'message:"a * b"', "node:none", "ran:>5d",
    "claimed:>9d",
    'pattern:"no such thing"', 'state:failed error:Error pattern:"to *"',
    "state:failed error:Nothing", "type:type_3 verdict:stalled",
)  # fmt: skip


def _ask(store: Store, wire: Wire) -> None:
    """Ask everything that the pages ask, labelled by how much of it may be read."""
    now = from_micros((LAST_MS + 60_000) * 1000)
    middle = ended_id(SIZE, SIZE.ended // 2)
    reader, listing = Reader(store), Listing(store)
    for label, queries in (("index", BY_INDEX), ("tested", TESTED), ("attempts", OF_ATTEMPT)):
        for text in queries:
            how = {"terms": parse(text), "as_of": now}
            for wanted in (
                TaskFilter(**how),
                TaskFilter(**how, before_id=middle),
                TaskFilter(**how, after_id=middle),
                TaskFilter(**how, oldest_first=True, after_id=middle),
            ):
                with wire.as_(f"{label}: {text}"):
                    reader.tasks(wanted)
            with wire.as_(f"{label if label != 'index' else 'count'}: {text}"):
                listing.count(TaskFilter(**how))
    with wire.as_("index: cancellations"):
        listing.cancellations([ended_id(SIZE, 100 * n + 97) for n in range(50)])
        listing.of([ended_id(SIZE, n) for n in range(50)])
    assert now is not None
    with wire.as_("dead"):
        assert DeadBook(store).look(now).looked > DEAD_WINDOW
    desk = BulkDesk(store, lambda _: None)
    with wire.as_("tested: bulk"):
        act = desk.begin("rerun", "queue:queue_1", by="ann", reason="r")
        held = desk.hold(act, "me")
        assert held is not None
        while held.total is None:
            held = desk.step(held, "me")
            assert held is not None
        step = desk.step(held, "me")
        assert step is not None
        assert step.done == STEP
        desk.release("me")
        desk.open()
        desk.latest()
        desk.get(act.bulk_id)
        assert desk.stop(act.bulk_id, by="ann", reason="r")


LIMITS = {
    "index": (PAGE, STEPS_PAGE),
    "count": (10_001, 300_000),
    "tested": (WINDOW, STEPS_WINDOW),
    "attempts": (OF_ATTEMPTS, STEPS_OF_ATTEMPTS),
    "dead": (2 * DEAD_WINDOW, 300_000),
}


def _broken(sent: list[Sent]) -> list[str]:
    found = []
    for one in sent:
        rows, steps = LIMITS[one.label.split(":")[0]]
        many = {table: n for table, n in one.visited.items() if table in BIG and n > rows}
        whole = one.whole(BIG)
        if many or whole or one.steps > steps:
            why = many or whole or one.steps
            found.append(f"{one.label}: {why}: {one.parameters}: {one.scans}: {one.sql}")
    return found


@pytest.mark.parametrize("counted", [False, True], ids=["as it is", "analyzed"])
def test_on_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_file: Path, counted: bool
) -> None:
    with asked_on_file(monkeypatch, large_file, tmp_path, counted=counted) as (store, wire):
        _ask(store, wire)
    assert _broken(wire.sent) == []


@pytest.mark.parametrize("counted", [False, True], ids=["as it is", "analyzed"])
def test_on_a_server(monkeypatch: pytest.MonkeyPatch, large_database: str, counted: bool) -> None:
    with asked_on_server(monkeypatch, large_database, counted=counted) as (store, wire):
        _ask(store, wire)
    assert _broken(wire.sent) == []


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_file(tmp_path_factory.mktemp("large"), SIZE)


@pytest.fixture(scope="module")
def large_database(postgresql: servers.PostgreSQL) -> Iterator[str]:
    with filled_database(postgresql, "plans_of_tasks", SIZE) as url:
        yield url
