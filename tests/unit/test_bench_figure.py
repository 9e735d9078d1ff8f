"""When a measured value keeps its budget: as it stands, or as the machine goes at the moment."""

from __future__ import annotations

import pytest

from bench.__main__ import by_store
from bench.figure import Figure, at_most, table


def rate(value: float, beside: float) -> Figure:
    return Figure(
        name="drain", value=value, unit="/s", floor=100, peer="a loop", peer_value=beside,
        peer_there=50,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "beside", "word"),
    [
        (100, 50, "ok"),
        (99, 50, "MISSED"),
        (80, 40, "ok by ratio"),  # everything is a fifth slower here
        (79, 40, "MISSED"),
        (100, 90, "ok"),  # on a faster machine the budget is what it is
    ],
)
def test_a_slower_machine_needs_the_same_ratio(value: float, beside: float, word: str) -> None:
    figure = rate(value, beside)
    assert figure.ok is (word != "MISSED")
    assert f"  {word}  " in table([figure])


def test_without_a_yardstick_only_the_value_counts() -> None:
    assert not Figure(name="drain", value=99, unit="/s", floor=100).ok
    assert at_most("wait", 15, "ms", 15).ok
    assert not at_most("wait", 15.1, "ms", 15).ok


def test_stores_stand_beside_each_other() -> None:
    figures = [
        at_most("help", 3, "ms", 5),  # of no store
        at_most("wait, sqlite", 1.25, "ms", 15),
        at_most("wait, postgresql+redis", 16, "ms", 15),
        Figure(
            name="drain, postgresql+redis", value=80, unit="/s", floor=100, peer="a loop",
            peer_value=40, peer_there=50,
        ),
    ]  # fmt: skip
    assert by_store(figures).split("\n") == [
        "| figure | sqlite | postgresql+redis |",
        "|---|---|---|",
        "| wait | 1.250 ms, ≤ 15 | 16 ms, ≤ 15, **missed** |",
        "| drain |  | 80 /s, ≥ 100, kept by ratio, 2.00 × a loop |",
    ]
