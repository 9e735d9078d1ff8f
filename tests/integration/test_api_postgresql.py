"""The API on PostgreSQL: what that cannot keep is told before it is asked; all else is the same."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
import servers
import stores
from api import Api
from pages import PagesUnderTest, pages

from supervisor.model.access import Role


@pytest.fixture(scope="module")
def site(
    postgresql: servers.PostgreSQL, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PagesUnderTest]:
    place = stores.Database(postgresql)
    try:
        with pages(tmp_path_factory.mktemp("server"), url=place.url, web_rate="100000") as made:
            yield made
            assert "web.failed" not in made.log.read_text()
    finally:
        place.remove()


@pytest.fixture(scope="module")
def api(site: PagesUnderTest) -> Api:
    return Api(site.base, site.add_token("all", Role.ADMIN, autopsies=True))


def test_a_task_goes_its_way(api: Api) -> None:
    made = api.post("/tasks", type="greet", params={"n": "ü😀"}, dedup_key="k")
    assert (made.code, api.post("/tasks", type="greet", dedup_key="k").code) == (201, 200)
    task_id = made.document["task_id"]
    shown = api.get(f"/tasks/{task_id}").document
    assert (shown["state"], shown["params"]) == ("PENDING", {"n": "ü😀"})
    seen = {"state": "RUNNING", "attempt": 1}
    changed = api.post(f"/tasks/{task_id}/cancel", reason="x", seen=seen)
    assert (changed.code, changed.document["state"]) == (409, "PENDING")
    seen = {"state": "PENDING", "attempt": 0}
    assert api.post(f"/tasks/{task_id}/cancel", reason="x", seen=seen).code == 200
    copy = api.post(f"/tasks/{task_id}/resubmit", reason="again", copy_id=f"task_{'a' * 32}")
    assert (copy.code, copy.document["task_id"]) == (201, f"task_{'a' * 32}")
    assert (
        api.post(f"/tasks/{task_id}/resubmit", reason="again", copy_id=f"task_{'a' * 32}").code
        == 200
    )
    itself = api.post(f"/tasks/{task_id}/resubmit", reason="again", copy_id=task_id)
    assert (itself.code, list(itself.fields)) == (422, ["copy_id"])
    assert api.get("/tasks/count?q=state:pending").document == {"count": 1, "is_all": True}
    begun = api.post("/bulk", verb="cancel", query="type:greet", reason="all of them")
    assert begun.code == 202
    assert api.get(f"/bulk/{begun.document['bulk_id']}").code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/tasks?find=%00", "/tasks?q=%00", "/tasks?type=a%00", "/audit?operator=%00",
        "/audit?reason=%00", "/autopsies?type=%00", "/autopsies?before=%00", "/dead?before=%00",
        "/tasks/%00", "/nodes/%00/workers", "/orders/%00", "/bulk/%00", "/%00",
    ],
)  # fmt: skip
def test_a_nul_is_told_before_the_store_is_asked(api: Api, path: str) -> None:
    assert api.get(path).code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/tasks?find=%ED%A0%80", "/tasks?q=%FF", "/tasks?find=%25_%5C", "/tasks?q=error:*'*",
        "/audit?before=9223372036854775807", "/audit?since=0001-01-01T00:00:00Z",
        "/audit?until=9999-12-31T23:59:59Z", "/autopsies?before=none", "/tasks?tag=%22%5D",
        "/alerts?before=9999-12-31T23:59:59%2B00:00,x", "/nodes/x/vitals?seconds=3600",
    ],
)  # fmt: skip
def test_what_is_odd_is_answered(api: Api, path: str) -> None:
    assert api.get(path).code in (200, 404, 422)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_is_none_in_utc_is_refused_by_its_name(api: Api, moment: str) -> None:
    why = {"reason": "x"}
    told = [
        api.post("/bulk", verb="cancel", query="type:none", seen_at=moment, **why),
        api.post("/queues/default/resume", paused_at=moment, **why),
        api.get(f"/audit?since={quote(moment)}"),
        api.get(f"/autopsies?until={quote(moment)}"),
    ]
    assert [(one.code, list(one.fields)) for one in told] == [
        (422, ["seen_at"]), (422, ["paused_at"]), (422, ["since"]), (422, ["until"]),
    ]  # fmt: skip


def test_pages_say_the_same_of_a_nul(site: PagesUnderTest) -> None:
    browser = site.opened()
    for path in ("/tasks?q=%00", "/audit?operator=%00", "/autopsies?type=%00", "/tasks/%00"):
        assert browser.get(path).code == 400
