"""What a file's name and its lines tell about a stack."""

from __future__ import annotations

import pytest

from autopsy.source import blocks_around, is_own, lock_taken, loop_around


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


LEAVES = "while True (with a way out)"
LOOPS = {
    "no loop": (">rest()", ""),
    "a while with a condition": ("while not done:\n    >rest()", "while not done"),
    "a for": ("for row in rows:\n    >rest()", "for row in rows"),
    "an async for": ("async for row in rows:\n    >rest()", "async for row in rows"),
    "for ever": ("while True:\n    >rest()", "while True"),
    "for ever as in C": ("while 1:\n    >rest()", "while 1"),
    "break": ("while True:\n    >rest()\n    if done:\n        break", LEAVES),
    "break before the line": ("while True:\n    if done:\n        break\n    >rest()", LEAVES),
    "return on the line of its condition": (
        "while True:\n    if done: return\n    >rest()",
        LEAVES,
    ),
    "raise": ("while True:\n    >rest()\n    raise Late(1)", LEAVES),
    "return beyond the loop": ("while True:\n    >rest()\nreturn 1", "while True"),
    "return in a function of its own": (
        "while True:\n    def key(one):\n        return one.age\n    >rest(key)",
        "while True",
    ),
    "break of an inner loop": (
        "while True:\n    for row in rows:\n        break\n    >rest()",
        "while True",
    ),
    "break after an inner loop": (
        "while True:\n    for row in rows:\n        work()\n    break\n    >rest()",
        LEAVES,
    ),
    "return in an inner loop": (
        "while True:\n    for row in rows:\n        return\n    >rest()",
        LEAVES,
    ),
    "break of an inner loop of one line": (
        "while True:\n    for row in rows: break\n    >rest()",
        "while True",
    ),
    "a comment says return": ("while True:  # return: never\n    >rest()  # break", "while True"),
    "a text says return": ("while True:\n    >say('please return now')", "while True"),
    "a name begins with return": ("while True:\n    >returned = rest()", "while True"),
    "one line, for ever": (">while True: rest()", "while True"),
    "one line, with a way out": (">while True: break", LEAVES),
    "one line, with a condition": (">while not done(): rest()", "while not done()"),
    "one line with a slice": (">while rows[1:2]: rest()", "while rows[1:2]"),
    "the innermost of two": (
        "while True:\n    for row in rows:\n        >rest()",
        "for row in rows",
    ),
    "the outer one, after the inner one": (
        "while True:\n    for row in rows:\n        work()\n    >rest()",
        "while True",
    ),
    "below other blocks": (
        "while not done:\n    with LOCK:\n        try:\n            >rest()",
        "while not done",
    ),
    "a function in a loop is not in it": (
        "while True:\n    def beat():\n        >rest()",
        "",
    ),
    "a decorated function in a loop is not in it": (
        "while True:\n    @every(3)\n    async def beat():\n        >rest()",
        "",
    ),
    "the loop of a function in a function": (
        "def run():\n    def beat():\n        while True:\n            >rest()\n    return beat",
        "while True",
    ),
    "after the loop": ("while True:\n    work()\n>rest()", ""),
    "the else of a loop": ("for row in rows:\n    work()\nelse:\n    >rest()", ""),
    "comments and empty lines between": (
        "while True:\n\n# at the margin\n    # break\n    >rest()",
        "while True",
    ),
    "a call over several lines": ("while True:\n    rest(\n        >1,\n    )", "while True"),
    "the head 399 lines above": (
        "while True:\n" + "    work()\n" * 398 + "    >rest()",
        "while True",
    ),
    "the head further above": ("while True:\n" + "    work()\n" * 399 + "    >rest()", ""),
}


@pytest.mark.parametrize(("text", "head"), LOOPS.values(), ids=LOOPS)
def test_the_innermost_loop_around_a_line(text: str, head: str) -> None:
    """The line that is meant is marked with `>`."""
    number = text[: text.index(">")].count("\n") + 1
    assert loop_around(text.replace(">", "", 1).splitlines(), number) == head


@pytest.mark.parametrize("number", [-1, 0, 3])
def test_a_line_that_is_not_there_is_in_no_loop(number: int) -> None:
    assert loop_around(["while True:", "    rest()"], number) == ""
