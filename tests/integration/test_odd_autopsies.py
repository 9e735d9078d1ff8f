"""The kill is in time whatever the program does that takes the evidence."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from harness import TIMEOUT, NodeUnderTest, Start, ran_s

from supervisor.client import Handle
from supervisor.model.states import State

LIMIT_S, BUDGET_S = 1.5, 3.0
ODDITIES = (
    "stop", "be_deaf", "rave", "talk_half", "talk_nonsense", "say_nothing", "hang_up", "crash",
)  # fmt: skip
PLACE = Path(__file__).parents[1] / "programs" / "odd_autopsy"


@pytest.fixture(scope="module")
def orders() -> Iterator[Path]:
    """A directory of its own for the program that misbehaves, and for how."""
    with TemporaryDirectory(prefix="odd-") as directory:
        shutil.copy(PLACE / "sitecustomize.py", directory)
        yield Path(directory)


def killed(node: NodeUnderTest, orders: Path, oddities: list[str]) -> dict[str, Handle]:
    """Run as many tasks that hang as there are oddities, each with one of them, to their ends."""
    handles = {}
    for how in oddities:
        spec = {"timeout": LIMIT_S, "max_retries": 0}
        handles[how] = node.submit("nap", spec=spec)
        (orders / handles[how].task_id).write_text(how)
    for handle in handles.values():
        handle.wait(30)
    return handles


@pytest.mark.parametrize("again", ["", "+"])
def test_the_kill_is_in_time(start_node: Start, orders: Path, again: str) -> None:
    """Where only the first run fails, what the node itself knew is in the bundle of the second."""
    node = start_node(workers=4, autopsy_budget=BUDGET_S, pythonpath_extra=orders)
    for four in (ODDITIES[:4], ODDITIES[4:]):
        for how, handle in killed(node, orders, [how + again for how in four]).items():
            view = handle.view()
            assert (view.state, view.reason) == (State.TIMEOUT, "timeout"), how
            assert node.endings(handle.task_id) == [(TIMEOUT, "timeout", "exited", True)], how
            (attempt,) = node.attempts(handle.task_id)
            assert LIMIT_S <= ran_s(attempt) < LIMIT_S + BUDGET_S + 1, how
            (record,) = node.reader.autopsies(handle.task_id)
            assert (record.pid, record.verdict) == (attempt.pid, "timeout"), how
            assert record.status == ("failed" if again else "partial"), how
            if not again:
                facts = node.bundle(handle.task_id).sections["facts"]
                assert facts["task_id"] == handle.task_id
                assert facts["looks"]
    assert node.events("loop.failed") == []
    assert node.running
