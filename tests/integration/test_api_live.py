"""The API over a node at work: a task is submitted, watched, canceled until it is verified gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from api import Api
from harness import Start, eventually, on_both_stores
from pages import pages

from supervisor.model.access import Role


def until(api: Api, path: str, done: Callable[[Any], bool]) -> Any:
    """Ask again and again until it is so."""
    return eventually(lambda: done(told := api.get(path).document) and told, 30.0, path)


@on_both_stores
def test_all_that_a_person_can_do_a_program_can(start_node: Start, tmp_path: Path) -> None:
    node = start_node(workers=2)
    with pages(tmp_path, url=node.url, start=False, web_rate="100000") as site:
        site.env["SUPERVISOR_QUEUE"] = node.place.queue
        site.env["XDG_RUNTIME_DIR"] = node.env["XDG_RUNTIME_DIR"]
        site.start()
        api = Api(site.base, site.add_token("ci", Role.OPERATOR, autopsies=True))

        quick = api.post("/tasks", type="ok", params={"value": [1, {"a": None}]}).document[
            "task_id"
        ]
        ended = until(api, f"/tasks/{quick}", lambda task: task["state"] == "SUCCESS")
        assert (ended["result"], ended["attempts"][0]["result"]) == ([1, {"a": None}],) * 2

        slow = api.post("/tasks", type="sleep", params={"s": 600}).document["task_id"]
        until(api, f"/tasks/{slow}", lambda task: task["started_at"])
        oldest = api.get("/attention").document["oldest_running"]
        assert (oldest["task_id"], oldest["type"], oldest["attempt"]) == (slow, "sleep", 1)
        (one,) = api.get("/nodes").document["nodes"]
        assert (one["gone"], one["running"], "sleep" in one["types"]) == (False, 1, True)
        vitals = f"/nodes/{one['node_id']}/vitals"
        seen = until(api, vitals, lambda told: _works_on(told, slow))
        assert len(seen["readings"][0]["workers"]) == 2
        assert api.get(f"/nodes/{one['node_id']}/workers").document["workers"][0]["pid"]

        wrong = api.post(f"/tasks/{slow}/capture", reason="look", attempt=7)
        assert wrong.code == 409
        asked = api.post(f"/tasks/{slow}/capture", reason="look", attempt=1)
        assert asked.code == 202
        order = until(api, f"/orders/{asked.document['order_id']}", lambda told: told["answer"])
        assert (order["kind"], order["operator"]) == ("capture", "token:ci")
        (found,) = api.get("/autopsies").document["autopsies"]
        bundle = api.get(f"/autopsies/{found['autopsy_id']}/bundle")
        assert (bundle.code, bundle.body[:2]) == (200, b"PK")

        told = api.post(f"/tasks/{slow}/cancel", reason="wrong month")
        assert (told.code, told.document["answer"]) == (200, "requested")
        gone = until(api, f"/tasks/{slow}", lambda task: task["state"] == "CANCELED")
        steps = [step["step"] for step in gone["stop"]]
        assert steps[0] == "cancel_requested"
        assert steps[-1] == "cancel_verified"
        assert gone["stop"][0]["by"] == "token:ci"

        drain = {"kind": "drain", "reason": "we move house"}
        wrong = api.post(f"/nodes/{one['node_id']}/orders", **drain, seen="drained")
        assert (wrong.code, wrong.document["detail"]) == (409, "the node is running by now")
        drained = api.post(f"/nodes/{one['node_id']}/orders", **drain, seen="running")
        assert drained.code == 202
        other = Api(site.base, site.add_token("other", Role.OPERATOR))
        late = other.post(
            f"/nodes/{one['node_id']}/orders", kind="stop", reason="x", seen="running"
        )
        assert late.code == 409
        until(api, f"/orders/{drained.document['order_id']}", lambda told: told["answer"])
        later = api.post("/tasks", type="ok").document["task_id"]
        assert api.get(f"/tasks/{later}").document["state"] == "PENDING"


def _works_on(told: Any, task_id: str) -> bool:
    workers = told["readings"][-1]["workers"] if told["readings"] else []
    return any(worker["task_id"] == task_id for worker in workers)
