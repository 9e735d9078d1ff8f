"""5,000 tasks are canceled by one act while a node works: nobody waits for it."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from harness import NodeUnderTest, Start, eventually, loop_never_waited, on_both_stores
from pages import pages

from supervisor.model.states import State

pytestmark = pytest.mark.alone

MANY = 5_000


def submits(node: NodeUnderTest, seconds: float) -> list[float]:
    """Submit one task after the other for so long; return how long each submit took, in ms."""
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        node.submit("ok")
        took.append(1000 * (time.perf_counter() - began))
        time.sleep(0.01)
    return took


@on_both_stores
def test_5000_are_canceled_while_a_node_works(start_node: Start, tmp_path: Path) -> None:
    node = start_node()
    later = datetime.now(UTC) + timedelta(hours=1)
    app = node.app
    app.submit_many([{"type": "ok", "params": {}, "tags": ["many"], "run_after": later}] * MANY)
    with pages(tmp_path, start=False) as site:
        site.env["SUPERVISOR_STORE"] = node.url
        site.env["XDG_RUNTIME_DIR"] = node.env["XDG_RUNTIME_DIR"]
        site.start()
        before = submits(node, 1)
        act = app.client.bulk.begin("cancel", "tag:many", by="ann", reason="wrong month")
        app.submit_many([{"type": "ok", "params": {}, "tags": ["many"], "run_after": later}] * 100)
        during = submits(node, 2)

        def over() -> bool:
            found = app.client.bulk.get(act.bulk_id)
            assert found is not None
            return found.ended_at is not None

        eventually(over, 30)
        found = app.client.bulk.get(act.bulk_id)
        assert found is not None
        assert found.ended_at is not None
        took = (found.ended_at - found.created_at).total_seconds()
        assert (found.total, found.done, found.refused) == (MANY, MANY, 0)
        print(f"canceled {MANY} in {took:.2f} s; submit p50/p99 ms before"
              f" {statistics.median(before):.1f}/{_p99(before):.1f},"
              f" during {statistics.median(during):.1f}/{_p99(during):.1f}")  # fmt: skip
        assert statistics.median(during) < 5 * statistics.median(before) + 20
        assert _p99(during) < 250
    loop_never_waited(node)
    counts = app.client.reader.counts(datetime.now(UTC)).by_state
    assert counts[State.CANCELED] == MANY
    eventually(lambda: app.client.reader.counts(later).by_state[State.PENDING] == 100, 20)


def _p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]
