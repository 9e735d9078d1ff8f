"""Two versions of an app at once on one store: each node runs the types it knows, none is lost."""

from __future__ import annotations

import pytest
from harness import Start, eventually
from stores import SERVER, SERVER_AND_REDIS

from supervisor.model.states import State

OLD, NEW = "tests.programs.tasks_endings:app", "tests.programs.tasks_version:app"


@pytest.mark.parametrize("store", [SERVER, SERVER_AND_REDIS])
def test_a_type_waits_for_a_node_that_knows_it(start_node: Start, store: str) -> None:
    old = start_node(OLD, store=store, node_name="old", workers=1)
    early = [old.submit("greet_again") for _ in range(5)]
    known = [old.submit("ok", value=n) for n in range(5)]
    assert [h.wait(20).state for h in known] == [State.SUCCESS] * 5
    assert {h.state() for h in early} == {State.PENDING}
    eventually(
        lambda: "greet_again" in old.get("/readyz")[1], 10, "the old node says what it cannot run"
    )

    new = start_node(NEW, shares=old, node_name="new", workers=1)
    late = [new.submit("greet_again") for _ in range(5)]
    views = [h.wait(20) for h in early + late]
    assert {view.state for view in views} == {State.SUCCESS}
    assert {view.node_id for view in views} == {new.node_id()}

    new.stop()  # the old node goes on as before, and leaves what it does not know
    last, again = old.submit("greet_again"), old.submit("ok", value=1)
    assert again.wait(20).state is State.SUCCESS
    assert last.state() is State.PENDING
    types = {node.node_name: node.types for node in old.reader.nodes()}
    assert "greet_again" not in types["old"]
    assert types["new"] == ()
