"""The benchmark of large stores still runs; its figures at this size say nothing."""

from __future__ import annotations

import pytest

from bench import large, place


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
