"""Types that no node here runs: named once, then ever more rarely."""

from __future__ import annotations

import pytest

from supervisor.model.record import ProcessIdentity
from supervisor.node.floor import Floor
from supervisor.node.mending import Mending
from supervisor.node.port import CountsRead
from supervisor.settings import load_settings
from supervisor.telemetry.events import LOGGER
from supervisor.telemetry.metrics import Metrics
from supervisor.testing import ManualClock, MemoryScribe, ScriptedPool
from supervisor.worker.wire import TypeInfo

EVERY_S = 5


def test_a_type_is_named_once_then_with_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    settings = load_settings({}, {}, None)
    pool, scribe = ScriptedPool(clock, {}), MemoryScribe(clock)
    floor = Floor("n1", settings, clock, pool, scribe, Metrics(version="t"))
    own = ProcessIdentity(pid=1, start_ticks=1, boot_id="boot", pid_ns=1)
    mending = Mending(floor, own)
    named: list[float] = []

    def look(**due: int) -> None:
        caplog.clear()
        mending.counts(CountsRead({}, due))
        if [record.msg for record in caplog.records] == ["task.unrouted"]:
            named.append(clock.mono() - began)

    began = clock.mono()
    with caplog.at_level("INFO", LOGGER):
        look(export=1, strange=1)  # the app is not up: nothing is known to be strange
        floor.types["export"] = TypeInfo(name="export", options={})
        for second in range(0, 500, EVERY_S):
            look(export=1, strange=second % 2)  # a retry may be due now and then
            clock.advance(EVERY_S)
    assert named == [5, 65, 185, 425]
    assert mending.unrouted == frozenset({"strange"})
