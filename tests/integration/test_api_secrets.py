"""What is secret of a task is on no surface for people: pages, API, files, trail, command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from api import Api
from harness import NodeUnderTest
from pages import PagesUnderTest, pages

from supervisor.model.access import Role

CANARIES = {
    "password": "canary-pw-71dd0fe2",
    "api_key": "canary-key-a81c90b3",
    "token": "canary-tok-5e62aa17",
    "reference": "canary-ref-c0ffee99",
    "seed": "canary-seed-42aa42aa",
    "customer": {"pin": "canary-pin-8f8f1b1b", "reference": "canary-in-33dd77ee", "name": "ada"},
}
VALUES = re.findall(r"canary-[a-z]+-[0-9a-f]{8}", json.dumps(CANARIES))
URLS = {
    "CANARY_DATABASE_URL": "postgresql://app:canary-db-99aa11bb@db/app",
    "CANARY_REDIS_URL": "redis://:canary-rd-77cc22dd@cache/0",
    "CANARY_API_TOKEN": "Bearer canary-env-12ab34cd",
}


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Run a task that spreads its secrets and raises; return its store's place, id and node log."""
    root = tmp_path_factory.mktemp("spread")
    node = NodeUnderTest(root, "tests.programs.tasks_canary:app")
    node.env.update(URLS)
    try:
        node.start()
        labels = {"dedup_key": f"order-{VALUES[0]}", "tags": [f"for:{VALUES[4]}", "plain"]}
        found = node.submit("spreads", how="raises", spec=labels, **CANARIES).wait(30)
        assert (found.state, found.error_type) == ("FAILED", "Refused")
        node.stop()
        return root, found.task_id, node.log_text()
    finally:
        node.close()


def test_no_surface_shows_a_secret(spread: tuple[Path, str, str]) -> None:
    root, task_id, log = spread
    assert len(VALUES) == 7
    with pages(root) as site:
        surfaces = {"the node's log": log, **_asked(site, task_id)}
        kept = surfaces.pop("the store")
        leaks = {
            (name, value)
            for name, text in surfaces.items()
            for value in [*VALUES, "canary-db-99aa11bb", "canary-rd-77cc22dd"]
            if value in text
        }
        assert leaks == set()
        assert "[redacted]" in surfaces["/tasks/ID"]
        assert '"name":"ada"' in surfaces["/api/v1/tasks/ID"]
        for name in ("/api/v1/tasks", "/api/v1/tasks/ID", "list", "show"):  # the last as JSON
            told = json.loads(surfaces[name])
            task = told["tasks"][0] if "tasks" in told else told.get("task", told)
            assert task["dedup_key"] == "order-[redacted]"
            assert task["tags"] == ["for:[redacted]", "plain"]
        assert "order-[redacted],for:[redacted] plain" in surfaces["/tasks.csv"]
        # The task itself needs its params, so they are in its row, and there alone.
        assert {value for value in VALUES if value in kept} == set()


def _asked(site: PagesUnderTest, task_id: str) -> dict[str, str]:
    site.add_autopsy(task_id)
    api = Api(site.base, site.add_token("all", Role.ADMIN, autopsies=True))
    browser = site.opened()
    paths = ("/tasks", "/tasks/ID", "/tasks.csv", "/audit", "/audit.csv", "/dead", "/")
    asked = {path: browser.get(path.replace("ID", task_id)).text for path in paths}
    rooms = ("tasks", "tasks/ID", "tasks/ID/history", "tasks/ID/log", "audit", "dead", "numbers")
    for room in rooms:
        told = api.get(f"/{room.replace('ID', task_id)}")
        assert told.code == 200
        asked[f"/api/v1/{room}"] = told.body.decode()
    for args in (("show", task_id, "--json"), ("history", task_id), ("list", "--json")):
        asked[args[0]] = site.cli(*args).stdout
    asked["show, for people"] = site.cli("show", task_id).stdout
    rows = site.client.reader.attempts(task_id)
    asked["the store"] = repr((rows, site.client.reader.log(task_id), site.client.history(task_id)))
    asked["metrics"] = browser.get("/metrics").text
    asked["the log of the pages"] = site.log.read_text()
    return asked
