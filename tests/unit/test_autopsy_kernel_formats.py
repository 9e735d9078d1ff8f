"""The kernel's formats about sockets, locks, descriptors and groups, without any process."""

from __future__ import annotations

import socket
import struct

import pytest

from autopsy.collect import filelock, netlink
from autopsy.collect.descriptor import groups
from autopsy.collect.tree import role


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF",
            {
                "id": "1", "waiting": False, "kind": "POSIX", "mode": "WRITE", "pid": 3568,
                "file": "fd:00:2531452", "range": ["0", "EOF"],
            },
        ),
        (
            "1: -> POSIX  ADVISORY  READ  3570 fd:00:2531452 128 191",
            {
                "id": "1", "waiting": True, "kind": "POSIX", "mode": "READ", "pid": 3570,
                "file": "fd:00:2531452", "range": ["128", "191"],
            },
        ),
        (
            "27: OFDLCK ADVISORY  WRITE -1 00:3b:12 0 EOF",
            {
                "id": "27", "waiting": False, "kind": "OFDLCK", "mode": "WRITE", "pid": -1,
                "file": "00:3b:12", "range": ["0", "EOF"],
            },
        ),
        (
            "3: LEASE  BREAKING  READ  77 00:3b:9 0 EOF",
            {
                "id": "3", "waiting": False, "kind": "LEASE", "mode": "READ", "pid": 77,
                "file": "00:3b:9", "range": ["0", "EOF"],
            },
        ),
    ],
)  # fmt: skip
def test_a_line_of_the_kernels_locks(line: str, expected: dict[str, object]) -> None:
    assert filelock.parsed(line) == expected


def test_descriptors_that_differ_only_in_what_is_made_up_are_one_group() -> None:
    targets = [
        *[f"socket:[{n}]" for n in range(5)],
        *[f"/var/tmp/tmp{letter}abcd_12.csv" for letter in "abc"],
        *[f"/data/2026/part-{n}.csv" for n in range(10, 14)],
        "/data/2026/total.csv",
        "anon_inode:[eventpoll]",
    ]
    assert groups(targets) == [
        {"target": "socket", "count": 5},
        {"target": "/data/2026/part-*.csv", "count": 4},
        {"target": "/var/tmp/tmp*.csv", "count": 3},
        {"target": "/data/2026/total.csv", "count": 1},
        {"target": "anon_inode:[eventpoll]", "count": 1},
    ]


SPAWNED = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"


@pytest.mark.parametrize(
    ("command_line", "expected"),
    [
        (["python", "-c", SPAWNED, "--multiprocessing-fork"], "multiprocessing worker"),
        (
            ["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"],
            "resource tracker",
        ),
        (
            ["python", "-c", "from multiprocessing.forkserver import main; main(5, 6, ['x'])"],
            "fork server",
        ),
        (["python", "-m", "joblib.externals.loky.backend.popen_loky_posix"], "joblib worker"),
        (["python", "app.py"], "fork of the patient"),
        (["cat"], ""),
        ([], ""),
    ],
)
def test_what_a_child_is_to_its_parent(command_line: list[str], expected: str) -> None:
    assert role(command_line, ["python", "app.py"]) == expected


def test_the_ends_of_a_socket_as_the_other_side_has_them() -> None:
    here = struct.pack("!H", 80) + socket.inet_aton("10.0.0.1")
    there = struct.pack("!H", 4711) + socket.inet_aton("10.0.0.2")
    assert netlink.swapped(here + there) == there + here


@pytest.mark.parametrize(
    ("family", "packed", "expected"),
    [
        (socket.AF_INET, socket.inet_aton("10.0.0.1") + bytes(12), "10.0.0.1:80"),
        (socket.AF_INET6, socket.inet_pton(socket.AF_INET6, "::ffff:10.0.0.1"), "10.0.0.1:80"),
        (socket.AF_INET6, socket.inet_pton(socket.AF_INET6, "fe80::1"), "[fe80::1]:80"),
        (socket.AF_INET6, bytes(16), "[::]:80"),
    ],
)
def test_addresses_read_as_people_write_them(family: int, packed: bytes, expected: str) -> None:
    assert netlink.printed(family, packed, 80) == expected
