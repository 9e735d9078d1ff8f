"""What the kernel, py-spy and faulthandler print, read back."""

from __future__ import annotations

import json

import pytest

from autopsy.collect import faultdump, pyspy
from autopsy.collect.connection import address
from autopsy.collect.pyspy import Dumped, Frame, Thread


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        ("0100007F:1F90", "127.0.0.1:8080"),
        ("00000000:0000", "0.0.0.0:0"),
        ("00000000000000000000000001000000:0050", "[::1]:80"),
    ],
)
def test_socket_addresses(packed: str, expected: str) -> None:
    assert address(packed) == expected


def test_a_dump_of_py_spy() -> None:
    printed = json.dumps(
        [
            {
                "os_thread_id": 7,
                "thread_name": None,
                "owns_gil": True,
                "active": True,
                "frames": [
                    {"name": "match", "filename": "sre", "module": "libpython3.11.so", "line": 0},
                    {"name": "main", "filename": "/app/x.py", "module": None, "line": 3},
                ],
            }
        ]
    ).encode()
    frames = (Frame("match", "sre", 0, native=True), Frame("main", "/app/x.py", 3))
    assert pyspy.parse(printed) == Dumped((Thread(7, "", True, True, frames),))


@pytest.mark.parametrize("printed", [b"", b"junk", b"{}", b"[1]", b'[{"a": 1}]', b"null"])
def test_junk_is_no_dump(printed: bytes) -> None:
    dumped = pyspy.parse(printed)
    assert dumped.threads == ()
    assert dumped.reason


def test_a_dump_of_faulthandler() -> None:
    printed = (
        "Current thread 0x00007f (most recent call first):\n"
        '  File "/app/a b.py", line 12 in wait\n'
        '  File "/app/x.py", line 3 in <module>\n'
    )
    frames = (Frame("wait", "/app/a b.py", 12), Frame("<module>", "/app/x.py", 3))
    assert faultdump.parse(9, printed) == Thread(9, "", False, False, frames)
    assert faultdump.parse(9, "") is None
