"""The API keeps to its own description, whatever it is sent: schemathesis over the running process.

Every operation gets what is allowed and what is not, with ids that exist and ids that do not: no
answer may be a 5xx, or one that the description does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from api import Api
from pages import PagesUnderTest, pages

from supervisor.model.access import Role

if TYPE_CHECKING:
    from schemathesis import Case

DESCRIPTION = Path(__file__).parents[2] / "docs" / "openapi.json"
EXAMPLES = 4
PATHS = json.loads(DESCRIPTION.read_text())["paths"]
OPERATIONS = [f"{verb.upper()} {path}" for path, verbs in PATHS.items() for verb in verbs]
#: Where a schema cannot say all: of two limits one is lower, a page goes on where one ended, a
#: query can be read, bytes are a bundle, of two lists one is part of the other.
BEYOND = {
    "submit.submit_task", "submit.submit_tasks", "alertmanager.take_alerts",
    "alertmanager.list_alerts", "tasks.list_tasks", "tasks.count_tasks", "bulk.begin_bulk",
    "autopsies.open_bundle", "acts.act_on_tasks",
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A site with something of each kind in it."""

    site: PagesUnderTest
    headers: dict[str, str]
    ids: Mapping[str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with pages(tmp_path_factory.mktemp("contract"), web_rate="100000") as site:
        task_id = site.app.submit({"type": "greet", "params": {"a": [1]}}).task_id
        site.client.cancel(task_id, by="tester", reason="an ended one")
        site.add_autopsy(task_id)
        token = site.add_token("all", Role.ADMIN, autopsies=True)
        ids = {"task_id": task_id, "autopsy_id": "evidence-1", "queue": "default", "verb": "rerun"}
        groups = Api(site.base, token).get("/autopsies/groups").document["groups"]
        ids["key"] = groups[0]["key"]
        yield Place(site, {"Authorization": f"Bearer {token}"}, ids)
        assert "web.failed" not in site.log.read_text()


def test_what_is_served_is_what_the_documents_have(place: Place) -> None:
    served = place.site.browser().get("/api/v1/openapi.json").text
    assert json.loads(served) == json.loads(DESCRIPTION.read_text())


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    """Return each operation by its name. (To import it takes long: not where tests are listed.)"""
    import schemathesis
    from schemathesis.openapi import from_path

    schema = from_path(DESCRIPTION)
    schemathesis.serializer.alias("application/zip", "application/octet-stream")
    schema.config.generation.update(allow_x00=False)  # no store can keep one: it is told with 400
    found = {one.label: one for one in (each.ok() for each in schema.get_all_operations())}
    assert list(found) == OPERATIONS
    return found


@pytest.mark.parametrize("positive", [True, False], ids=["positive", "negative"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_keeps_its_word(
    place: Place, operations: dict[str, Any], name: str, positive: bool
) -> None:
    from hypothesis import given
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    operation = operations[name]
    mode = GenerationMode.POSITIVE if positive else GenerationMode.NEGATIVE
    names = [parameter.name for parameter in operation.path_parameters]
    known = {name: place.ids[name] for name in names if name in place.ids}

    is_beyond = operation.definition.raw["operationId"] in BEYOND
    left_out = [positive_data_acceptance] if is_beyond else []

    def check(case: Case) -> None:
        base = place.site.base.rstrip("/")
        case.call_and_validate(base_url=base, headers=place.headers, excluded_checks=left_out)

    if not positive and not (names or operation.query or operation.body):
        return  # nothing of it can be wrong
    for path in [None, known] if known and positive else [None]:
        cases = operation.as_strategy(generation_mode=mode, path_parameters=path)
        _within_bounds(given(cases)(check))()


def _within_bounds(test: Any) -> Any:
    from hypothesis import HealthCheck, Phase, settings

    return settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )(test)
