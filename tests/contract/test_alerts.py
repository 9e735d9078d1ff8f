"""What Alertmanager tells, kept by both kinds of store: repeated, late, over, and old."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from ledger_scene import START, Scene

from supervisor.store.alerts import AlertBook, AlertPage, AlertView
from supervisor.store.ledger import alerts as ledger_alerts
from supervisor.store.ledger.alerts import Telling

SLOW = Telling(
    fingerprint="a1", starts_at=START, ends_at=None, name="DependencySlow", severity="warning",
    labels={"alertname": "DependencySlow", "service": "bank"}, annotations={"summary": "slow"},
)  # fmt: skip


@pytest.fixture
def book(scene: Scene) -> AlertBook:
    return AlertBook(scene.store)


def tell(scene: Scene, *told: Telling) -> int:
    with scene.ledger.transaction() as tx:
        return tx.alerts.take(told, scene.now)


def over(told: Telling, after_s: float) -> Telling:
    return replace(told, ends_at=told.starts_at + timedelta(seconds=after_s))


def seen(told: Telling, scene: Scene) -> AlertView:
    fields = {name: getattr(told, name) for name in Telling.__slots__}
    return AlertView(**fields, received_at=scene.now)


def test_what_is_repeated_is_heard_again_and_changes_nothing(scene: Scene, book: AlertBook) -> None:
    assert not book.has_any()
    assert tell(scene, SLOW) == 1
    scene.pass_time(300)
    said_anew = replace(SLOW, annotations={"summary": "slower"})
    assert tell(scene, said_anew, said_anew) == 0
    assert book.firing() == [seen(said_anew, scene)]
    assert book.has_any()


def test_an_alert_ends_once_and_what_comes_late_does_not_undo_it(
    scene: Scene, book: AlertBook
) -> None:
    tell(scene, SLOW)
    scene.pass_time(100)
    ended = over(SLOW, 90)
    assert tell(scene, ended) == 1
    scene.pass_time(10)
    assert tell(scene, SLOW) == 0  # another Alertmanager, or a try that was thought lost
    assert book.firing() == []
    assert tell(scene, ended) == 0
    assert book.find().alerts == (seen(ended, scene),)


def test_an_end_that_comes_first_stands(scene: Scene, book: AlertBook) -> None:
    assert tell(scene, over(SLOW, 5)) == 1
    assert tell(scene, SLOW) == 0
    assert book.firing() == []


def test_an_alert_that_fires_on_after_its_end_fires(scene: Scene, book: AlertBook) -> None:
    tell(scene, over(SLOW, 5))
    scene.pass_time(ledger_alerts.LATE.total_seconds())
    assert tell(scene, SLOW) == 1
    assert book.firing() == [seen(SLOW, scene)]


def test_each_time_that_it_began_is_one_of_its_own(scene: Scene, book: AlertBook) -> None:
    again = replace(SLOW, starts_at=START + timedelta(hours=1))
    tell(scene, over(SLOW, 60))
    tell(scene, again)
    assert book.firing() == [seen(again, scene)]
    assert book.find().alerts == (seen(again, scene), seen(over(SLOW, 60), scene))


def test_pages_follow_each_other_where_many_began_at_once(scene: Scene, book: AlertBook) -> None:
    many = [
        replace(SLOW, fingerprint=f"f{n}", starts_at=START + timedelta(seconds=n // 3))
        for n in range(7)
    ]
    tell(scene, *many)
    found: list[str] = []
    page = AlertPage((), None, "")
    while True:
        page = book.find(page.next_at, page.next_of or "", limit=2)
        found += [one.fingerprint for one in page.alerts]
        if page.next_at is None:
            break
    assert found == ["f6", "f5", "f4", "f3", "f2", "f1", "f0"]


def test_what_is_over_is_removed_when_it_is_old_or_too_much(
    scene: Scene, book: AlertBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = replace(SLOW, fingerprint="01d", starts_at=START - ledger_alerts.KEEP)
    fires = replace(old, fingerprint="f")
    old = replace(old, starts_at=old.starts_at - timedelta(seconds=1))
    long = replace(old, fingerprint="10", ends_at=START - timedelta(days=1))
    tell(scene, over(old, 1), long, fires, over(SLOW, 1))
    with scene.ledger.transaction() as tx:
        assert tx.alerts.forget(scene.now) == 1
    assert [one.fingerprint for one in book.find().alerts] == ["a1", "f", "10"]
    monkeypatch.setattr(ledger_alerts, "KEPT_MOST", 1)
    later = replace(SLOW, fingerprint="b2", starts_at=START + timedelta(seconds=1))
    tell(scene, over(later, 1))
    scene.pass_time(2)
    with scene.ledger.transaction() as tx:
        assert tx.alerts.forget(scene.now) == 2
    assert [one.fingerprint for one in book.find().alerts] == ["b2", "f"]


def test_what_it_says_may_be_anything(scene: Scene, book: AlertBook) -> None:
    odd = replace(
        SLOW, name="n" * 300, severity="s" * 100,
        labels={"a": "\x00", "b": "\ud800", "c": "ü<b>"}, annotations={"": "\x1b[2J"},
    )  # fmt: skip
    tell(scene, odd)
    (kept,) = book.firing()
    assert (len(kept.name), len(kept.severity), kept.labels["c"]) == (200, 40, "ü<b>")


def test_what_fires_is_found_in_pages(scene: Scene, book: AlertBook) -> None:
    alike = [replace(SLOW, fingerprint=f"b{n}") for n in range(3)]
    tell(scene, *alike, over(replace(SLOW, fingerprint="b9"), 5))
    later = replace(SLOW, starts_at=START + timedelta(hours=1))
    tell(scene, later)
    first = book.find(limit=2, firing=True)
    assert first.alerts == (seen(later, scene), seen(alike[2], scene))
    second = book.find(first.next_at, first.next_of or "", 2, firing=True)
    assert second == AlertPage((seen(alike[1], scene), seen(alike[0], scene)), None, None)
