"""What bounds the pages and the API: a pace for each asker, and how much of refusals is written."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from harness import eventually

from supervisor import App
from supervisor.testing.clock import ManualClock
from supervisor.web import language, secret
from supervisor.web.api import ENDPOINTS
from supervisor.web.api.openapi import describe
from supervisor.web.beside import in_turns
from supervisor.web.limiter import KEY_LENGTH, Pace, stranger
from supervisor.web.limiter import KEYS_MAX as ASKERS_MAX
from supervisor.web.refusals import (
    ALL_MAX,
    ASKER_MAX,
    KEYS_MAX,
    NAMED_MAX,
    OWN_MAX,
    UNKNOWN,
    WINDOW_S,
    Bound,
    Key,
    leads_out,
    more_of,
)
from supervisor.web.watch import FRESH, Note, Watch, is_fresh, told_of


def test_a_pace_lets_twice_as_many_at_once_and_then_one_after_the_other() -> None:
    clock = ManualClock()
    pace = Pace(clock, 10)
    assert [pace.take("a") for _ in range(20)] == [0.0] * 20
    assert pace.take("a") == 0.1
    assert pace.take("b") == 0.0
    clock.advance(0.25)
    assert [pace.take("a") == 0.0 for _ in range(3)] == [True, True, False]
    clock.advance(3600)
    assert [pace.take("a") for _ in range(20)] == [0.0] * 20
    assert pace.take("a") > 0


def test_a_slow_pace_still_lets_one_through() -> None:
    clock = ManualClock()
    pace = Pace(clock, 0.1)
    assert pace.take("a") == 0.0
    assert round(pace.take("a"), 6) == 10.0
    for number in range(ASKERS_MAX + 10):
        pace.take(str(number))
    assert pace.take("a") == 0.0  # whoever asked longest ago is forgotten


def unknown(kind: str, place: str) -> Key:
    return Key(kind, UNKNOWN, place)


def test_of_many_refusals_few_are_written_and_then_how_many_more() -> None:
    clock = ManualClock()
    bound, key = Bound(clock), Key("no right", "ann", "")
    assert [bound.take(key) for _ in range(OWN_MAX + 3)] == [True] * OWN_MAX + [False] * 3
    assert bound.take(Key("no right", "bob", "")) is True
    assert bound.take(Key("too large", "ann", "")) is True
    assert bound.untold() == {}  # the minute is not over
    clock.advance(WINDOW_S + 1)
    assert bound.untold() == {key: 3}
    assert bound.untold() == {}
    assert [bound.take(key) for _ in range(OWN_MAX + 1)] == [True] * OWN_MAX + [False]
    assert bound.untold(at_end=True) == {key: 1}


def test_what_is_over_is_told_also_when_others_come_before_anybody_looks() -> None:
    clock = ManualClock()
    bound, key = Bound(clock), unknown("too large", "10.0.0.1")
    for _ in range(2):
        assert [bound.take(key) for _ in range(OWN_MAX + 2)].count(False) == 2
        clock.advance(WINDOW_S)
    assert bound.untold() == {key: 4}


def test_one_stranger_silences_nobody() -> None:
    bound = Bound(ManualClock())
    kinds = [str(number) for number in range(100)]
    assert [bound.take(unknown(kind, "10.0.0.1")) for kind in kinds].count(True) == ASKER_MAX
    assert bound.take(unknown("not signed in", "10.0.0.2")) is True
    assert bound.take(Key("no right", "ann", "")) is True


def test_many_strangers_write_no_flood_and_silence_none_who_is_known() -> None:
    bound = Bound(ManualClock())
    many = [bound.take(unknown("not signed in", str(number))) for number in range(5000)]
    assert many.count(True) == ALL_MAX
    assert bound.take(Key("no right", "ann", "")) is True
    untold = bound.untold(at_end=True)
    assert (len(untold), untold.total()) == (KEYS_MAX + 1, 5000 - ALL_MAX)
    notes = list(more_of(untold))
    more = "not written down one by one"
    assert len(notes) == NAMED_MAX + 1
    assert notes[0] == (f"not signed in: 1 more from {ALL_MAX}, {more}", UNKNOWN)
    assert notes[-1] == (f"{5000 - ALL_MAX - NAMED_MAX} more by others, {more}", UNKNOWN)


def test_notes_say_who_went_on_most_first() -> None:
    untold = Counter({Key("no right", "ann", ""): 2, unknown("too large", "10.0.0.1"): 9})
    more = "not written down one by one"
    assert list(more_of(untold)) == [
        (f"too large: 9 more from 10.0.0.1, {more}", UNKNOWN),
        (f"no right: 2 more, {more}", "ann"),
    ]


def test_addresses_that_one_host_may_have_are_one_stranger() -> None:
    assert stranger("2001:db8:1:2::5") == stranger("2001:db8:1:2:ffff::9") == "2001:db8:1:2::/64"
    assert stranger("2001:db8:1:3::5") != stranger("2001:db8:1:2::5")
    assert stranger("::ffff:10.0.0.1") == stranger("10.0.0.1") == "10.0.0.1"
    assert stranger("fe80::1%eth0") == "fe80::/64"
    assert stranger("x" * 1000) == "x" * KEY_LENGTH


def test_a_turn_that_raises_ends_nothing_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    over, turns = threading.Event(), iter((ZeroDivisionError("a"), *[KeyError("b")] * 3, None))
    taken: list[object] = []

    def turn() -> None:
        taken.append(next(turns, None))
        if len(taken) == 7:
            over.set()
        if isinstance(taken[-1], Exception):
            raise taken[-1]

    in_turns(turn, over, "watch", 0.0)
    assert len(taken) == 7
    told = [record.__dict__["fields"]["error"] for record in caplog.records]
    assert told == ["ZeroDivisionError('a')", "KeyError('b')"]


def test_whoever_is_nobody_is_compared_with_as_much_work_as_anybody() -> None:
    kept = secret.hash_password("a long enough word")
    method, salt, digest = kept.split("$")
    nobody = secret.NOBODY.split("$")
    assert (nobody[0], *map(len, nobody[1:])) == (method, len(salt), len(digest))
    assert secret.is_password(kept, "a long enough word")
    assert not secret.is_password(secret.NOBODY, "a long enough word")


def test_paths_that_lead_out() -> None:
    out = (
        "/a/../b",
        "/a/..%2fb",
        "/a/%2e%2e/b",
        "/a/%252e%252e/b",
        "/a/..",
        "/a\\..\\b",
        "/x?y=../z",
    )
    assert [path for path in out if not leads_out(path)] == []
    assert [path for path in ("/tasks", "/a..b", "/tasks?q=a..b", "/...") if leads_out(path)] == []


def test_every_endpoint_says_what_it_does_under_a_name_of_its_own() -> None:
    names = [endpoint.name for endpoint in ENDPOINTS]
    assert len(set(names)) == len(names)
    for endpoint in ENDPOINTS:
        assert endpoint.prose[0].endswith("."), endpoint.name
        assert (endpoint.needs is None) == (endpoint.name == "description.get_openapi")
    described = describe(ENDPOINTS, "1")
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len(operations) == len(ENDPOINTS)
    assert describe(ENDPOINTS, "1", "/jobs")["servers"] == [{"url": "/jobs"}]


class BrokenWatch(Watch):
    """Meets a bug in each turn."""

    def note(self) -> None:
        raise ZeroDivisionError


def test_a_watch_that_meets_a_bug_says_so_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    app = App(store="sqlite:///nowhere.db")
    with BrokenWatch(app.client).going():
        eventually(lambda: caplog.records, 10, "the bug is told")
        assert "watch" in {thread.name for thread in threading.enumerate()}
    (record,) = caplog.records
    assert record.__dict__["fields"]["what"] == "watch"
    assert record.__dict__["fields"]["remedy"].startswith("The pages go on")


def test_what_is_noted_no_more_is_not_told_as_of_now() -> None:
    begun = datetime(2026, 5, 20, 10, 30, tzinfo=UTC)
    notes = [Note(begun + timedelta(seconds=15 * turn), {"default": turn}) for turn in range(4)]
    app = Flask("told")
    language.add_to(app)
    with app.test_request_context():
        now = notes[-1].at + FRESH
        assert told_of(notes, now) == ("What is due is noted by this web process, since 10:30 UTC.")
        assert told_of(notes, now + timedelta(seconds=1)) == (
            "What is due is not noted since 10:30:45 UTC: this web process's log says why."
        )
        assert told_of((), now) == (
            "What is due is noted by this web process, but has not been yet."
        )
    assert is_fresh(notes, now)
    assert not is_fresh(notes, now + timedelta(seconds=1))
