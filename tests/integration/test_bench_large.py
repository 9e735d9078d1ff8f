"""The benchmark of large stores still runs; its figures at this size say nothing."""

from __future__ import annotations

import pytest

from bench import large, place, rooms
from supervisor.web.site import NAVIGATION, ROUTES


@pytest.mark.parametrize("kind", [place.Kind.SQLITE, place.Kind.POSTGRESQL])
def test_every_figure_is_measured(kind: place.Kind) -> None:
    with place.made(kind) as here:
        figures = list(large.measure(here, 0.01))
    assert [figure.name.partition(": ")[2] for figure in figures] == [
        "a claim of 8, p50",
        "a claim of 8, p95",
        "one task's audit, the longest of 200",
        "one task's audit, p50",
        "newest page",
        "page of a state",
        "page of a type",
        "page of a search",
        "count of all tasks by state",
        "tasks archived",
        "a write beside the archive, p99",
        "a task found in cold files",
    ]
    assert all(figure.value > 0 for figure in figures)


@pytest.mark.parametrize("kind", [place.Kind.SQLITE, place.Kind.POSTGRESQL])
def test_every_page_is_measured(kind: place.Kind) -> None:
    with place.made(kind) as here:
        figures = list(rooms.measure(here, 0.005))
    names = [figure.name.partition(": ")[2] for figure in figures]
    assert names[-3:] == [
        "20 viewers, the pages' process",
        "20 viewers, a page, p95",
        "20 viewers, loop lag of the node, p99",
    ]
    asked = {name.removeprefix("GET ").removesuffix(", p95") for name in names[:-3]}
    in_navigation = {room.name for room in NAVIGATION}
    assert asked >= {route.rule for route in ROUTES if route.name in in_navigation}
    assert asked >= {"/tasks/…", "/autopsies/…", "/autopsies/groups/…", "/bulk/…", *rooms.ASKED}
    assert all(figure.value > 0 for figure in figures)
