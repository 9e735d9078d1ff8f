"""What a file's name and its lines tell about a stack."""

from __future__ import annotations

import pytest

from autopsy.source import blocks_around, is_own, lock_taken


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/app/shop/orders.py", True),
        ("<string>", True),
        ("/usr/lib/python3.11/threading.py", False),
        ("/usr/lib64/python3.11/subprocess.py", False),
        ("/app/.venv/lib/python3.11/site-packages/redis/client.py", False),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("/opt/python311.zip/socket.py", False),
    ],
)
def test_whose_file_it_is(file: str, own: bool) -> None:
    assert is_own(file) is own


SOURCE = """\
with OUTER:
    def pay(self):
        with self.lock, open(path) as file:
            # with COMMENT:
            if file:
                with audit():
                    pass
                async with LOCK:  # taken
                    send(
                        file
                    )
        return 1
""".splitlines()


@pytest.mark.parametrize(
    ("number", "blocks"),
    [
        (9, ["LOCK", "open(path)", "self.lock"]),
        (10, ["LOCK", "open(path)", "self.lock"]),
        (6, ["open(path)", "self.lock"]),
        (3, []),
        (12, []),
        (0, []),
        (99, []),
    ],
)
def test_the_blocks_around_a_line_end_at_its_function(number: int, blocks: list[str]) -> None:
    assert blocks_around(SOURCE, number) == blocks


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("with self.lock:", "self.lock"),
        ("with LOCK, other:", "LOCK"),
        ("if not LOCK.acquire(timeout=3):", "LOCK"),
        ("a.b.lock.acquire()", "a.b.lock"),
        ("item = inbox.get()", ""),
        ("", ""),
    ],
)
def test_the_lock_a_line_takes(line: str, name: str) -> None:
    assert lock_taken(line) == name
