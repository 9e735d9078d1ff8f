"""What people, nodes and alerts leave in the store for long, and what is asked of it at every page.

The rule: however many orders, readings, alerts, acts on many and sessions there are, no statement
reads such a table, or an index of all its rows, from one end to the other, and none looks at more
of its rows than a page has. What may do more is listed with its reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import servers
import sqlalchemy as sa
from large_store import asked_on_file, asked_on_server, filled_database, filled_file
from statements import Sent, Wire

from bench.bulk import LAST_MS, Rows
from supervisor.model.access import Role
from supervisor.model.record import Owner
from supervisor.model.spec import TaskSpec
from supervisor.store import Ledger, Store
from supervisor.store.access import AccessBook
from supervisor.store.alerts import AlertBook
from supervisor.store.bulk import BulkDesk
from supervisor.store.ledger.access import Access
from supervisor.store.ledger.alerts import Alerts, Telling
from supervisor.store.ledger.audit import NoteReason
from supervisor.store.ledger.bulk import Bulk
from supervisor.store.ledger.orders import Orders
from supervisor.store.ledger.vitals import Vitals
from supervisor.store.orders import OrderDesk
from supervisor.store.record import TokenRecord, UserRecord
from supervisor.store.schema import (
    alerts,
    bulk_acts,
    from_micros,
    node_orders,
    nodes,
    vitals,
    web_sessions,
    web_users,
)
from supervisor.store.vitals import VitalsBook

SIZE = Rows(ended=2_000, pending=100)
#: Rows of each table, and who has them: every tenth is of the node or user that is asked about.
MANY, NODES = 10_000, 10
LONG = frozenset({"node_orders", "vitals", "alerts", "bulk_acts", "web_sessions"})
#: A node has 720 readings of an hour, and the page of nodes asks for all of one.
ROWS, STEPS = 1_100, 15_000
#: Each act is done so often: PostgreSQL keeps a plan from the second time on.
ROUNDS = 3
_KEPT = "counts those that are kept (here 10,000, at most 20,000) by their index"
MAY: Mapping[str, str] = MappingProxyType({"Alerts.forget": _KEPT, "Alerts.deliver": _KEPT})
_NODE, _WHY = "node_0", {"by": "ann", "reason": "r"}


def _now() -> datetime:
    now = from_micros((LAST_MS + 60_000) * 1000)
    assert now is not None
    return now


def _fill(url: str) -> None:
    """Leave what people, nodes and Alertmanager would have left, most of it over."""
    now = _now()
    past = [now - timedelta(seconds=5 * n) for n in range(MANY)]
    said = '{"node": {}, "workers": []}'
    rows: dict[sa.Table, list[dict[str, Any]]] = {
        nodes: [
            {"node_id": f"node_{n}", "node_name": "n", "pid": 1, "start_ticks": 1, "boot_id": "b",
             "pid_ns": 1, "version": "0", "listen": "none", "started_at": now}
            for n in range(NODES)
        ],
        node_orders: [
            {"order_id": f"order_{n}", "node_id": f"node_{n % NODES}", "kind": "drain",
             "operator": "ann", "reason": "r", "created_at": at, "answered_at": at, "answer": "yes"}
            for n, at in enumerate(past)
        ],
        vitals: [
            {"node_id": f"node_{n % NODES}", "at": at, "document": said}
            for n, at in enumerate(past)
        ],
        alerts: [
            {"fingerprint": f"f{n % NODES}", "starts_at": at, "name": "QueueGrows", "labels": "{}",
             "severity": "page", "annotations": "{}", "ends_at": at if n else None,
             "received_at": at}
            for n, at in enumerate(past)
        ],
        bulk_acts: [
            {"bulk_id": f"bulk_{n}", "verb": "rerun", "query": "state:failed", "operator": "ann",
             "reason": "r", "created_at": at, "total": 0, "done": 0, "refused": 0,
             "answers": '{"answers": {}, "examples": []}', "ended_at": at}
            for n, at in enumerate(past)
        ],
        web_users: [
            {"name": f"user_{n}", "password": "x", "role": "viewer", "sees_autopsies": False,
             "created_at": now, "created_by": "ann", "changed_at": now}
            for n in range(NODES)
        ],
        web_sessions: [
            {"key_hash": f"key_{n}", "user_name": f"user_{n % NODES}", "created_at": at,
             "ends_at": now + timedelta(days=1)}
            for n, at in enumerate(past)
        ],
    }  # fmt: skip
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for table, values in rows.items():
            connection.execute(sa.insert(table), values)
    engine.dispose()


class Desk:
    """A hand for every verb and view, which labels what they send with their names."""

    def __init__(self, store: Store, wire: Wire) -> None:
        self.store, self.wire, self.now, self.round = store, wire, _now(), 0
        self.ledger = Ledger(store)
        self.orders = OrderDesk(store, lambda: None)
        self.bulk = BulkDesk(store, lambda _: None)
        self.vitals, self.alerts = VitalsBook(store), AlertBook(store)
        self.access = AccessBook(store)

    def does(self, name: str, *args: Any, **how: Any) -> Any:
        """Call a verb in a transaction of its own; `name` is as in `orders.ask`."""
        subject, _, verb = name.partition(".")
        with self.wire.as_(f"{subject.title()}.{verb}"), self.ledger.transaction() as tx:
            return getattr(getattr(tx, subject), verb)(*args, **how)

    def sees(self, view: Callable[..., Any], *args: Any, **how: Any) -> Any:
        with self.wire.as_(view.__qualname__):
            return view(*args, **how)

    def run(self) -> None:
        self.round += 1
        self._orders()
        self._vitals()
        self._alerts()
        self._bulk()
        self._access()

    def _orders(self) -> None:
        with self.ledger.transaction() as tx:
            tx.submit([TaskSpec(type="plan")], self.now)
            [claim] = tx.claim(
                [Owner("w", 1, 1)], node_id=_NODE, queues=None, types={"plan"}, now=self.now
            )
        for _ in range(2):  # what is open is not written twice
            order = self.does("orders.ask", _NODE, "drain", **_WHY, now=self.now)
            self.does("orders.ask", None, "capture", task_id=claim.task_id, **_WHY, now=self.now)
        assert self.does("orders.answer", order.order_id, "done", self.now)
        with self.wire.as_("open_orders"), self.ledger.looking() as look:
            assert len(look.open_orders(_NODE)) == self.round
        node_id = f"node_{self.round}"
        self.sees(self.orders.ask, node_id, "stop", **_WHY)
        assert len(self.sees(self.orders.of_task, claim.task_id)) == 1
        assert len(self.sees(self.orders.of_node, _NODE)) == 50
        assert self.sees(self.orders.order, order.order_id).answer == "done"
        with self.wire.as_("end_node"), self.ledger.transaction() as tx:
            tx.end_node(node_id, self.now, "over")

    def _vitals(self) -> None:
        self.does("vitals.write", _NODE, self.now + timedelta(seconds=1), "{}")
        assert self.does("vitals.remove_old", self.now) == 240
        with self.ledger.transaction() as tx:
            tx.vitals.write(_NODE, self.now + timedelta(seconds=1), '{"node": {}, "workers": []}')
        book, hour = self.vitals, self.now - timedelta(hours=1)
        assert self.sees(book.latest, _NODE).at > self.now
        assert len(self.sees(book.latest_of, [_NODE, "node_9", "nobody"])) == 2
        assert len(self.sees(book.since, _NODE, hour)) > 50
        recent = self.sees(book.all_since, self.now - timedelta(seconds=20))
        assert sum(map(len, recent.values())) == 5
        assert len(self.sees(book.by_minute, _NODE, hour)) > 50

    def _alerts(self) -> None:
        one = Telling(
            fingerprint="f0", name="QueueGrows", severity="page", labels={}, annotations={},
            starts_at=self.now + timedelta(seconds=1), ends_at=None,
        )  # fmt: skip
        self.does("alerts.take", [one], self.now)
        self.does("alerts.forget", self.now)
        assert self.does("alerts.deliver", [one], self.now) == 0
        assert len(self.sees(self.alerts.firing)) == 2
        page = self.sees(self.alerts.find)
        assert len(self.sees(self.alerts.find, page.next_at, page.next_of).alerts) == 50
        assert len(self.sees(self.alerts.find, firing=True).alerts) == 2
        assert self.sees(self.alerts.has_any)

    def _bulk(self) -> None:
        desk = self.bulk
        act = self.sees(desk.begin, "rerun", "state:failed", **_WHY)
        assert [one.bulk_id for one in self.sees(desk.open)] == [act.bulk_id]
        held = self.sees(desk.hold, act, "me")
        while held.total is None:
            held = self.sees(desk.step, held, "me")
        assert self.sees(desk.step, held, "me").done == (SIZE.ended // 20 if self.round == 1 else 0)
        assert len(self.sees(desk.latest)) == 100
        assert self.sees(desk.get, act.bulk_id).ended_at is not None
        other = self.sees(desk.begin, "rerun", "state:failed", **_WHY)
        assert self.sees(desk.stop, other.bulk_id, **_WHY)
        self.sees(desk.begin, "rerun", "state:failed", **_WHY)
        self.does("bulk.stop_all_of", "ann", by="bob", why="r", now=self.now)
        self.sees(desk.release, "me")

    def _access(self) -> None:
        book, now = self.access, self.now
        user = UserRecord(
            name="zoe", password="x", role=Role.VIEWER, sees_autopsies=False, created_at=now,
            created_by="ann", changed_at=now,
        )  # fmt: skip
        token = TokenRecord(
            name="ci", token_hash="h", role=Role.VIEWER, sees_autopsies=False, created_at=now,
            created_by="ann", ends_at=None,
        )  # fmt: skip
        self.does("access.web_key", "key")
        assert self.does("access.add_user", user)
        assert self.does("access.add_token", token)
        later = now + timedelta(days=1)
        for key in ("mine", "other"):
            assert self.does("access.begin_session", user, key, "password", now, later)
        assert self.sees(book.of_session, "mine", now).name == "zoe"
        assert self.sees(book.of_token, "h", now).name == "token:ci"
        assert self.sees(book.user, "zoe") is not None
        assert self.sees(book.has_users)
        assert self.sees(book.web_key) == "key"
        assert len(self.sees(book.users)) == NODES + 1
        assert len(self.sees(book.tokens)) == 1
        self.does("access.end_session", "other", "zoe", now)
        assert self.does("access.change_password", "zoe", "y", "zoe", now)
        assert self.does("access.disable_user", "zoe", "-", "ann", now)
        assert self.does("access.remove_user", "zoe", "ann", now)
        assert self.does("access.revoke_token", "ci", "ann", now)
        self.does("access.note", NoteReason.SIGNED_IN, "t", "ann", now)
        self.does("access.note_sign_in", "ann", "password", now)
        self.does("access.note_refusal", "t", now)
        self.does("access.note_refused_request", "t", "ann", now)


def _public(*kinds: type) -> set[str]:
    found = (
        (kind, name) for kind in kinds for name, _ in inspect.getmembers(kind, inspect.isfunction)
    )
    return {f"{kind.__name__}.{name}" for kind, name in found if not name.startswith("_")}


def _all_done(store: Store, wire: Wire) -> None:
    desk = Desk(store, wire)
    for _ in range(ROUNDS):
        desk.run()
    every = _public(OrderDesk, VitalsBook, AlertBook, AccessBook, BulkDesk)
    every |= _public(Orders, Vitals, Alerts, Access)
    every |= {"Bulk.stop_all_of"}  # the desk calls the others
    assert _public(Bulk) >= {"Bulk.stop_all_of"}
    assert {one.label for one in wire.sent} == every | {"open_orders", "end_node"}


def _broken(sent: list[Sent]) -> list[str]:
    """Return what does more work than it may, and what is listed and does not."""
    found: dict[str, str] = {}
    for one in sent:
        many = {table: n for table, n in one.visited.items() if table in LONG and n > ROWS}
        whole = one.whole(LONG)
        if many or whole or one.steps > STEPS:
            found[one.label] = f"{one.label}: {many or whole or one.steps}: {one.sql}"
    needless = [f"{label} is listed and does little" for label in MAY if label not in found]
    return [told for label, told in found.items() if label not in MAY] + needless


@pytest.mark.parametrize("counted", [False, True], ids=["as it is", "analyzed"])
def test_on_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_file: Path, counted: bool
) -> None:
    with asked_on_file(monkeypatch, large_file, tmp_path, counted=counted) as (store, wire):
        _all_done(store, wire)
    assert _broken(wire.sent) == []


@pytest.mark.parametrize("counted", [False, True], ids=["as it is", "analyzed"])
def test_on_a_server(
    monkeypatch: pytest.MonkeyPatch, postgresql: servers.PostgreSQL, counted: bool
) -> None:
    with filled_database(postgresql, "plans_of_people", SIZE) as url:
        _fill(url)
        with asked_on_server(monkeypatch, url, counted=counted) as (store, wire):
            _all_done(store, wire)
    assert _broken(wire.sent) == []


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = filled_file(tmp_path_factory.mktemp("large"), SIZE)
    _fill(f"sqlite:///{path}")
    return path
