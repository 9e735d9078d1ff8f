"""The log ring against a writer that is killed in the middle of everything."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from autopsy.ring import LogRecordView, LogRing, RingHandler, create_log_ring

WRITER = Path(__file__).parents[1] / "programs" / "stuck_log_writer.py"
KILLS = 20


def is_whole(record: LogRecordView) -> bool:
    """The writer's rule: the text follows from the name and the time of creation."""
    number = int(record.created)
    expected = f"{number} " + record.logger * (number % 1500)
    if " [cut] " not in record.text:
        return record.text == expected
    start, _, end = record.text.partition(" [cut] ")
    return expected.startswith(start) and expected.endswith(end)


def test_no_torn_record_is_read_whenever_the_writer_is_killed() -> None:
    fd = create_log_ring(32)
    ring = LogRing(fd)
    chance = random.Random(7)
    reads, last_seq = 0, 0
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, str(WRITER), str(fd)], stdout=subprocess.PIPE, pass_fds=[fd]
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            end = time.monotonic() + chance.uniform(0, 0.02)
            while time.monotonic() < end:
                records = ring.records(100)
                assert all(is_whole(record) for record in records)
                reads += len(records)
            writer.kill()
        records = ring.records(100)
        assert all(is_whole(record) for record in records)
        assert [one.seq for one in records] == sorted({one.seq for one in records})
        # Two threads write: a kill tears at most one slot of each.
        assert len(records) >= 30
        assert records[-1].seq > last_seq
        last_seq = records[-1].seq
    assert reads > 1000
    ring.close()
    os.close(fd)


def test_a_forked_child_does_not_write_into_its_parents_ring() -> None:
    fd = create_log_ring(8)
    ring = LogRing(fd)
    handler = RingHandler(ring)
    handler.handle(logging.makeLogRecord({"name": "app", "levelno": 20, "msg": "parent"}))
    pid = os.fork()
    if pid == 0:
        handler.handle(logging.makeLogRecord({"name": "app", "levelno": 20, "msg": "child"}))
        os._exit(0)
    os.waitpid(pid, 0)
    handler.handle(logging.makeLogRecord({"name": "app", "levelno": 20, "msg": "parent again"}))
    assert [record.text for record in ring.records(8)] == ["parent", "parent again"]
    ring.close()
    os.close(fd)
