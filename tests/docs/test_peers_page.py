"""The page of benchmarks names every queue that is measured, in the versions that are measured."""

from __future__ import annotations

from typing import Any

import pytest
from doc_text import REPOSITORY

from bench.page import placed
from bench.peers.bodies import HANGING
from bench.peers.report import SPEEDS, guarantees, markdown, ratios, speeds
from bench.peers.roster import PEERS, Peer

PAGE = (REPOSITORY / "docs" / "benchmarks.md").read_text("utf-8")
SECTION = PAGE[PAGE.index("## Beside other task queues") :]
SPEED = SECTION[: SECTION.index("### A task that will not end")]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_has_its_rows_and_an_adapter(peer: Peer) -> None:
    wanted = 2 if peer.environment else 4  # figures and what it keeps; ours beside the best, twice
    assert SPEED.count(f"| {peer.label} |") == wanted
    assert (REPOSITORY / "bench" / "peers" / "adapters" / f"{peer.adapter}.py").exists()


def test_the_versions_on_the_page_are_those_pinned() -> None:
    files = {peer.requirements for peer in PEERS if peer.requirements is not None}
    pins = {line for file in files for line in file.read_text().split()}
    said = {pin.replace("==", " ").replace("[redis]", "").replace("[binary]", "") for pin in pins}
    shown = {one.replace("redis ", "redis-py ") for one in said} - {"psycopg-pool 3.3.3"}
    assert sorted(one for one in shown if one not in SECTION) == []


def test_the_page_has_a_column_for_every_body_that_hangs() -> None:
    columns = " | ".join(body.__name__ for body in HANGING)
    assert SECTION.count(f" | {columns} | the record then |") == 2


def test_a_table_is_one_that_can_stand_on_the_page() -> None:
    assert markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def row(label: str, drain: float, cpu: float, **more: object) -> dict[str, Any]:
    """Return what is kept of a queue; three rounds, of which the last is the odd one."""
    figures = dict.fromkeys((key for _, key, _ in SPEEDS), 1.0)
    return {
        "label": label,
        "ours": False,
        "store": "file",
        "durable": True,
        "survives": "all",
        "record": "nothing",
        "at_once": 2,
        "versions": {"redis": "1.0", "Redis": "7"},
        "rounds": [
            {**figures, "drain_rate": drain * by, "cpu_s": cpu * by} for by in (0.5, 1.0, 4.5)
        ],
        **more,
    }


def test_a_spread_is_the_median_with_least_and_most() -> None:
    _, _, figures = speeds([row("Some queue", 2, 2)]).split("\n")
    assert figures.startswith("| Some queue | 1 (1–1) | 2 (1–9) | 2.00 (1.00–9.00) |")


def test_what_is_kept_of_a_task_stands_beside_what_was_measured() -> None:
    _, _, line = guarantees([row("Some queue", 1, 1)]).split("\n")
    assert line == "| Some queue | redis-py 1.0, Redis 7 | 2 | all | nothing |"


def test_ours_stand_beside_the_best_that_keep_what_ours_keep_and_the_best_of_all() -> None:
    rows = [
        row("Ours", 600, 0.1, ours=True),
        row("A file", 200, 0.5),
        row("A server", 300, 0.2, store="postgres"),
        row("In memory", 400, 0.4, store="redis", durable=False),
    ]
    assert ratios(rows).split("\n")[2:] == [
        "| Ours | the best durable, same kind of store | 3.00 × A file | 0.20 × A file |",
        "| Ours | the best of all | 1.50 × In memory | 0.50 × A server |",
    ]
    assert ratios(rows[:1]) == ""


def test_tables_take_the_place_of_those_before_them() -> None:
    marks = "<!-- some: written by the benchmark -->\n{}<!-- end of some -->\n"
    page = f"before\n{marks.format('old')}after\n"
    wanted = marks.format("\n| new |\n\n")
    assert placed(page, "some", "| new |") == f"before\n{wanted}after\n"
    assert placed(placed(page, "some", "| new |"), "some", "| new |") == placed(
        page, "some", "| new |"
    )
    with pytest.raises(ValueError, match="no marks for other"):
        placed(page, "other", "")
