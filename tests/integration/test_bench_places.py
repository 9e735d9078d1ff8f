"""Where the benchmarks measure: stores of each kind, on servers that are gone afterwards."""

from __future__ import annotations

import importlib
from pathlib import Path

import psycopg
import pytest

from bench import node, place, reference
from bench.__main__ import BENCHES


@pytest.fixture(params=[place.Kind.SQLITE, place.Kind.REDIS])
def kind(request: pytest.FixtureRequest) -> place.Kind:
    """Return a kind of store; the one with a bell has all the servers."""
    chosen: place.Kind = request.param
    return chosen


def test_a_place_is_new_counts_what_is_there_and_leaves_nothing(kind: place.Kind) -> None:
    with place.made(kind) as here:
        assert node.fill(here, 3) > 0
        with here.database() as db:
            assert db.count("tasks WHERE state = 'PENDING'") == 3
            assert db.trail() == 3
            assert db.rows("SELECT DISTINCT type FROM tasks WHERE queue = ?", "bench") == [
                ("noop",)
            ]
        below = here.below("another")
        node.fill(below, 1)
        with below.database() as db:
            assert db.count("tasks") == 1
        drained = reference.drain(here.below("beside"), 20)
        assert drained.rate > 0
        assert drained.cpu_s > 0
        assert reference.bulk_rate(here.below("bulk"), 1000) > 0
        assert len(reference.start_waits(here.below("starts"), 3)) == 3
        assert reference.enqueue_rate(here.below("plain"), 20) > 0
        assert (node.servers_cpu_s(here) > 0) is (kind is not place.Kind.SQLITE)
        folder, pids = here.folder, here.pids
    assert not folder.exists()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_the_server_of_a_place_keeps_what_is_committed() -> None:
    wanted = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "autovacuum": "on",
    }
    with place.made(place.Kind.POSTGRESQL) as here, psycopg.connect(here.store) as connection:
        found = {name: connection.execute(f"SHOW {name}").fetchone() for name in wanted}
    assert found == {name: (value,) for name, value in wanted.items()}


@pytest.mark.parametrize("name", BENCHES)
def test_every_benchmark_can_be_called(name: str) -> None:
    assert callable(importlib.import_module(f"bench.{name}").measure)
