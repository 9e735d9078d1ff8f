"""The log ring within one process (its memory is anonymous: nothing touches a disk)."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator

import pytest

from autopsy.errors import RingUnreadable
from autopsy.ring import SLOT_BYTES, LogRecordView, LogRing, RingHandler, create_log_ring


@pytest.fixture
def fd() -> Iterator[int]:
    made = create_log_ring(4)
    yield made
    os.close(made)


@pytest.fixture
def ring(fd: int) -> Iterator[LogRing]:
    made = LogRing(fd)
    yield made
    made.close()


def test_records_come_back_oldest_first_and_old_ones_make_room(ring: LogRing) -> None:
    for number in range(1, 7):
        ring.write(float(number), 20, "app", f"line {number}")
    assert ring.records(10) == [
        LogRecordView(number, float(number), 20, "app", f"line {number}") for number in range(3, 7)
    ]
    assert [record.seq for record in ring.records(2)] == [5, 6]


def test_a_second_mapping_reads_and_goes_on_where_the_first_stopped(fd: int, ring: LogRing) -> None:
    ring.write(1.0, 30, "a", "one")
    other = LogRing(fd)
    other.write(2.0, 40, "b", "two")
    assert ring.records(4) == [
        LogRecordView(1, 1.0, 30, "a", "one"),
        LogRecordView(2, 2.0, 40, "b", "two"),
    ]
    other.close()


def test_a_new_ring_takes_memory_only_as_it_is_written(fd: int, ring: LogRing) -> None:
    header = os.fstat(fd).st_blocks
    other = LogRing(fd)
    assert os.fstat(fd).st_blocks == header == 4096 // 512
    other.write(1.0, 20, "a", "one")
    assert os.fstat(fd).st_blocks == 2 * header
    other.close()


def test_a_long_text_keeps_its_start_and_its_end(ring: LogRing) -> None:
    ring.write(1.0, 20, "app", "start" + "x" * 5000 + "end")
    (record,) = ring.records(1)
    assert record.text.startswith("startx")
    assert record.text.endswith("xend")
    assert " [cut] " in record.text
    assert SLOT_BYTES - 64 < len(record.text) < SLOT_BYTES


def test_a_damaged_slot_is_left_out(fd: int, ring: LogRing) -> None:
    ring.write(1.0, 20, "app", "whole")
    ring.write(2.0, 20, "app", "damaged")
    second = 4096 + 2 * SLOT_BYTES
    os.pwrite(fd, b"#", second + 32)
    assert [record.text for record in ring.records(4)] == ["whole"]


def test_nobody_can_change_the_size(fd: int) -> None:
    for size in (0, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_foreign_memory_is_refused_with_a_remedy() -> None:
    foreign = os.memfd_create("foreign")
    try:
        with pytest.raises(RingUnreadable) as caught:
            LogRing(foreign)
    finally:
        os.close(foreign)
    assert caught.value.remedy


def make_record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("app.x", logging.ERROR, __file__, 1, message, args, None)


def test_the_handler_writes_the_text_with_the_exception(ring: LogRing) -> None:
    handler = RingHandler(ring)
    try:
        raise ValueError("bad page")
    except ValueError as exc:
        record = make_record("page %d", 7)
        record.exc_info = (type(exc), exc, exc.__traceback__)
    handler.handle(record)
    (found,) = ring.records(1)
    assert (found.logger, found.level, found.created) == ("app.x", 40, record.created)
    assert found.text.splitlines()[0] == "page 7"
    assert found.text.splitlines()[-1] == "ValueError: bad page"
    assert record.exc_text is None


def test_the_handler_counts_what_it_cannot_format_and_has_no_lock(ring: LogRing) -> None:
    handler = RingHandler(ring)
    handler.handle(make_record("%d", "not a number"))
    assert (handler.lost, handler.lock, ring.records(1)) == (1, None, [])


def test_the_handler_respects_filters(ring: LogRing) -> None:
    handler = RingHandler(ring)
    handler.addFilter(lambda record: False)
    assert handler.handle(make_record("hidden")) is False
    assert ring.records(1) == []
