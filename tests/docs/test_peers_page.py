"""The page of benchmarks names every queue that is measured, in the versions that are measured."""

from __future__ import annotations

import pytest
from doc_text import REPOSITORY

from bench.peers.bodies import HANGING
from bench.peers.report import markdown, speeds
from bench.peers.roster import PEERS, Peer

PAGE = (REPOSITORY / "docs" / "benchmarks.md").read_text("utf-8")
SECTION = PAGE[PAGE.index("## Beside other task queues") :]
SPEED = SECTION[: SECTION.index("### A task that will not end")]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_has_its_rows_and_an_adapter(peer: Peer) -> None:
    assert SPEED.count(f"| {peer.label} |") == 2  # figures, and versions with durability
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


def test_a_spread_is_the_median_with_least_and_most() -> None:
    keys = "enqueue_rate drain_rate cpu_s enqueue_cpu_s begin_p50_ms begin_p99_ms memory_mb"
    rounds = [dict.fromkeys([*keys.split(), "others_cores"], value) for value in (1.0, 2.0, 9.0)]
    row = {
        "label": "Some queue",
        "durable": "no",
        "at_once": 2,
        "versions": {"queue": "1.0"},
        "rounds": rounds,
    }
    _, _, figures, _, note, _ = speeds([row]).split("\n")
    assert figures.startswith("| Some queue | 2 (1–9) | 2 (1–9) | 2.00 (1.00–9.00) |")
    assert note == "Some queue: queue 1.0; 2 tasks at once; durable: no"
