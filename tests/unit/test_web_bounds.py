"""What bounds the pages and the API: a pace for each asker, and how much of refusals is written."""

from __future__ import annotations

from supervisor.testing.clock import ManualClock
from supervisor.web.api import ENDPOINTS
from supervisor.web.api.openapi import describe
from supervisor.web.limiter import KEYS_MAX, Pace
from supervisor.web.refusals import ALL_MAX, OWN_MAX, WINDOW_S, Bound, leads_out


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
    for number in range(KEYS_MAX + 10):
        pace.take(str(number))
    assert pace.take("a") == 0.0  # whoever asked longest ago is forgotten


def test_of_many_refusals_few_are_written_and_the_next_says_how_many_more() -> None:
    clock = ManualClock()
    bound = Bound(clock)
    assert [bound.take("no right", "a") for _ in range(OWN_MAX + 3)] == [0] * OWN_MAX + [None] * 3
    assert bound.take("no right", "b") == 0
    assert bound.take("too large", "a") == 0
    clock.advance(WINDOW_S + 1)
    assert [bound.take("no right", "a") for _ in range(2)] == [3, 0]


def test_many_askers_together_write_no_flood() -> None:
    bound = Bound(ManualClock())
    told = [bound.take("not signed in", str(number)) for number in range(5000)]
    assert told.count(0) == ALL_MAX


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
