"""What `make soak` holds against a node: each thing that may grow is found when it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from soak import lives
from soak.endurance import LEEWAY, ROUNDS, WARM_ROUNDS, Standing, grown
from soak.lives import Look

IDLE = Standing(
    rss_kib=60_000, fds=50, threads=3, memfds=16, processes=6, temp_files=0, shm_files=0
)


def test_a_node_that_stays_as_it_was() -> None:
    """What it grows while it warms up does not count, nor a swing within the band."""
    cold = replace(IDLE, rss_kib=40_000, fds=30)
    seen = [cold] * (WARM_ROUNDS - 1) + [IDLE] * 20
    seen += [replace(IDLE, rss_kib=62_900, fds=52, threads=5)] * (ROUNDS - len(seen))
    assert grown(seen) == []


@pytest.mark.parametrize("name", LEEWAY)
def test_a_leak(name: str) -> None:
    before = getattr(IDLE, name)
    now = before + LEEWAY[name] + 1
    leaky = replace(IDLE, **{name: now})
    found = grown([IDLE] * (ROUNDS - 1) + [leaky])
    assert found == [f"grown: {name} were {before} when warm, are {now}"]


def test_memory_that_grows() -> None:
    """Six per cent from end to end."""
    seen = [replace(IDLE, rss_kib=60_000 + 3_600 * n // (ROUNDS - 15)) for n in range(ROUNDS)]
    (found,) = grown([IDLE] * WARM_ROUNDS + seen)
    assert found.startswith("grown: RSS was 60000 KiB when warm, is ")


LOOKS = [Look(n, 0.1, 2340, 4, 80_000) for n in range(0, 5001, 10)]


def test_lives_that_leave_nothing() -> None:
    """What grows in the first quarter does not count."""
    seen = [replace(one, rss_kib=70_000, series=2000) for one in LOOKS[:120]] + LOOKS[120:]
    assert lives.grown(seen, 5000) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"series": 2341}, "grown: series were 2340 when warm, are 2341"),
        ({"rss_kib": 86_200}, "grown: RSS was 80000 KiB when warm, is 86200 KiB"),
        ({"took_s": 0.2}, "grown: a scrape took 0.100 s when warm, takes 0.200 s"),
    ],
)
def test_lives_that_leave_something(change: dict[str, Any], told: str) -> None:
    seen = LOOKS[:375] + [replace(one, **change) for one in LOOKS[375:]]
    assert lives.grown(seen, 5000) == [told]


def test_lives_that_nobody_saw() -> None:
    assert lives.grown(LOOKS[:50], 5000) == ["the lives were over before they were looked at"]
