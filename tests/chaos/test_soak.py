"""What `make soak` holds against a node: each thing that may grow is found when it has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from soak.endurance import LEEWAY, ROUNDS, WARM_ROUNDS, Standing, grown

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
