"""The App and its handles on a real store: submit, look, wait, step in, and the doorbell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from supervisor.app import App
from supervisor.clock import SystemClock
from supervisor.errors import InvalidSpec, NoResult, StoreUnavailable, UnknownTask, WaitTimeout
from supervisor.model import outcome
from supervisor.model.record import Ending, Owner
from supervisor.model.retry import RetryPolicy
from supervisor.model.states import State
from supervisor.queue.socket import SocketListener
from supervisor.store import Ledger, open_store

NO_ID = "task_" + "0" * 32


class Shop:
    """An app of one type, on a store of its own."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.url = f"sqlite:///{folder}/a.db"
        self.app = App(store=self.url, **settings)

        @self.app.task(queue="exports")
        def export(ctx: Any, user_id: int = 0, blob: str = "") -> int:
            return user_id

        self.export = export

    def finish(self, how: outcome.Outcome) -> None:
        """Play the node: claim the next export and end it."""
        clock = SystemClock()
        store = open_store(self.url, create=False)
        try:
            with Ledger(store, clock).transaction() as tx:
                [claim] = tx.claim(
                    [Owner("w", 1, 1)], node_id="n", queues=None, types={"export"}, now=clock.now()
                )
                tx.finish(
                    [
                        Ending(
                            task_id=claim.task_id,
                            attempt=claim.attempt,
                            outcome=how,
                            policy=RetryPolicy(max_retries=0),
                            ended_at=clock.now(),
                        )
                    ]
                )
        finally:
            store.close()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    made = Shop(tmp_path)
    yield made
    made.app.client.close()


def test_submit_look_wait_result(shop: Shop) -> None:
    handle = shop.export.submit(user_id=7, by="alice", dedup_key="k", priority=9)
    assert handle.created
    assert handle.state() is State.PENDING
    view = handle.view()
    assert (view.type, view.queue, view.priority, view.submitted_by, view.params_json) == (
        "export", "exports", 9, "alice", '{"user_id":7}',
    )  # fmt: skip
    with pytest.raises(NoResult, match="is PENDING: it has no result") as refused:
        handle.result()
    assert refused.value.remedy.startswith("Wait for it: `handle.wait()`")
    shop.finish(outcome.returned("7"))
    assert handle.wait(timeout=5).state is State.SUCCESS
    assert handle.result() == 7
    assert [line.reason for line in handle.history()] == ["submitted", "claimed", "returned"]
    assert repr(handle) == f"<Handle {handle.task_id}>"


@pytest.mark.parametrize(
    ("how", "remedy"),
    [
        (None, "It will not run again; `supervisor show {}` says who canceled it, and why."),
        (outcome.raised("E", "no", ""), "`supervisor show {}` says why; `supervisor rerun` runs"),
    ],
)
def test_what_ended_without_a_result_is_not_waited_for(
    shop: Shop, how: outcome.Outcome | None, remedy: str
) -> None:
    handle = shop.export.submit(user_id=7)
    if how is None:
        handle.cancel(by="ada", reason="wrong month")
    else:
        shop.finish(how)
    with pytest.raises(NoResult) as refused:
        handle.result()
    assert refused.value.remedy.startswith(remedy.format(handle.task_id))


def test_a_second_submit_with_the_key_returns_the_first(shop: Shop) -> None:
    first = shop.export.submit(user_id=1, dedup_key="k")
    again = shop.export.submit(user_id=2, dedup_key="k")
    assert (again.task_id, again.created) == (first.task_id, False)


def test_many_are_all_or_nothing(shop: Shop) -> None:
    handles = shop.app.submit_many([shop.export.spec(user_id=n) for n in range(3)])
    assert [handle.created for handle in handles] == [True] * 3
    with pytest.raises(InvalidSpec):
        shop.app.submit_many([shop.export.spec(user_id=1), shop.export.spec(user_id="x")])
    assert len(shop.app.client.reader.tasks().tasks) == 3


def test_get_by_id_or_its_beginning(shop: Shop) -> None:
    handle = shop.export.submit()
    assert shop.app.get(handle.task_id[:30]).task_id == handle.task_id
    with pytest.raises(UnknownTask) as caught:
        shop.app.get(NO_ID)
    assert caught.value.remedy


def test_waiting_ends_with_the_task_or_with_patience(shop: Shop) -> None:
    handle = shop.export.submit()
    with pytest.raises(WaitTimeout, match=r"still PENDING after 0\.01 s") as caught:
        handle.wait(timeout=0.01)
    assert isinstance(caught.value, TimeoutError)
    node = threading.Thread(target=shop.finish, args=(outcome.raised("E", "no", "tb"),))
    node.start()
    [view] = shop.app.wait(handle.task_id, timeout=10)
    node.join()
    assert (view.state, view.error) == (State.FAILED, "no")


def test_stepping_in(shop: Shop) -> None:
    one, other = shop.export.submit(), shop.export.submit()
    answers = shop.app.cancel([one.task_id, NO_ID], by="bob", reason="no")
    assert [answer.answer for answer in answers] == ["canceled", "not found"]
    assert other.cancel(by="bob", reason="no").done
    [refused] = shop.app.rerun(one.task_id, by="bob", reason="again")
    assert not refused.done
    shop.export.submit()
    shop.finish(outcome.raised("E", "no", "tb"))
    failed = shop.app.client.reader.tasks().tasks[0].task_id
    assert shop.app.rerun(failed, by="bob", reason="again")[0].state is State.PENDING
    assert not shop.app.fail(failed, by="bob", reason="stuck")[0].done
    assert shop.app.pause("exports", by="bob", reason="x")
    assert not shop.app.pause("exports", by="bob", reason="x")
    assert shop.app.resume("exports", by="bob", reason="x")
    assert [line.operator for line in shop.app.history(one.task_id)] == ["unknown", "bob"]


def test_the_bell_rings_after_the_commit(shop: Shop) -> None:
    with SocketListener(shop.url) as listener:
        handle = shop.export.submit(dedup_key="k")
        assert listener.heard().kinds == {"due"}
        shop.export.submit(dedup_key="k")
        assert listener.heard().kinds == set()
        handle.cancel(by="bob", reason="no")
        assert listener.heard().kinds == {"cancel"}


def test_submit_in_the_callers_own_transaction(shop: Shop, tmp_path: Path) -> None:
    shop.export.submit()
    engine = sa.create_engine(f"sqlite:///{tmp_path}/a.db")
    try:
        with SocketListener(shop.url) as listener:
            with engine.connect() as connection:
                connection.exec_driver_sql("CREATE TABLE orders (id INTEGER)")
                connection.commit()
                connection.exec_driver_sql("INSERT INTO orders VALUES (1)")
                lost = shop.export.submit(user_id=1, connection=connection)
                connection.rollback()
                assert listener.heard().kinds == set()
                connection.exec_driver_sql("INSERT INTO orders VALUES (2)")
                kept = shop.export.submit(user_id=2, connection=connection)
                assert listener.heard().kinds == set()
                connection.commit()
                assert listener.heard().kinds == {"due"}
                connection.commit()
                assert listener.heard().kinds == set()
            with pytest.raises(UnknownTask):
                lost.state()
            assert kept.state() is State.PENDING
    finally:
        engine.dispose()


def test_only_a_submit_makes_the_store(shop: Shop, tmp_path: Path) -> None:
    for act in (
        lambda: shop.app.get(NO_ID),
        lambda: shop.app.cancel(NO_ID, by="bob", reason="no"),
        lambda: shop.app.pause("q", by="bob", reason="no"),
    ):
        with pytest.raises(StoreUnavailable, match="no store at"):
            act()
    assert not (tmp_path / "a.db").exists()
    shop.export.submit()
    assert (tmp_path / "a.db").exists()


def test_large_params_warn(shop: Shop) -> None:
    with pytest.warns(UserWarning, match="params of a export task are 70"):
        shop.export.submit(blob="x" * 70_000)
    with pytest.warns(UserWarning, match="pass its key") as told:
        shop.app.submit({"type": "export", "params": {"blob": "x" * 70_000}})
    assert [one.filename for one in told] == [__file__]


def test_the_time_to_live_of_a_key_comes_from_the_settings(tmp_path: Path) -> None:
    shop = Shop(tmp_path, dedup_ttl=60)
    try:
        assert shop.export.submit(dedup_key="k").view().dedup_ttl == 60
        assert shop.export.submit(dedup_key="l", dedup_ttl=5).view().dedup_ttl == 5
        assert shop.export.submit().view().dedup_ttl is None
    finally:
        shop.app.client.close()


class MeetingApp(App):
    """Lets two threads into the middle of making a client before either goes on."""

    gate = threading.Barrier(2)

    @property
    def settings(self) -> Any:
        with suppress(threading.BrokenBarrierError):
            self.gate.wait(5)
        return super().settings


def test_threads_that_come_at_once_get_the_same_client(tmp_path: Path) -> None:
    app, found = MeetingApp(store=f"sqlite:///{tmp_path}/a.db"), []
    threads = [threading.Thread(target=lambda: found.append(app.client)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [id(one) for one in found] == [id(app.client)] * 2


def test_threads_share_one_client(shop: Shop) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: found.extend(shop.export.submit().task_id for _ in range(5))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 20
