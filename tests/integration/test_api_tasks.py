"""The API: tasks are submitted, found, shown and acted on; lists are paged; errors name fields."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from api import Api, Told
from harness import eventually
from pages import PagesUnderTest, pages
from report_sample import HEADING, sections

from autopsy.bundle import write_bundle
from supervisor.model.access import Role
from supervisor.web.bundle import UPLOAD_MAX_BYTES

NOWHERE = f"task_{'0' * 32}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("api"), web_rate="100000") as made:
        yield made


@pytest.fixture(scope="module")
def api(site: PagesUnderTest) -> Api:
    return Api(site.base, site.add_token("ci", Role.OPERATOR, autopsies=True))


def submitted(api: Api, **spec: Any) -> str:
    told = api.post("/tasks", type="greet", **spec)
    assert told.code == 201, told
    return str(told.document["task_id"])


def test_a_submit_with_a_dedup_key_is_answered_with_the_task_that_holds_it(
    site: PagesUnderTest, api: Api
) -> None:
    first = api.post(
        "/tasks", type="greet", params={"n": [1, None, "ü"]}, dedup_key="k", tags=["a"]
    )
    again = api.post("/tasks", type="greet", dedup_key="k")
    task_id = first.document["task_id"]
    assert (first.code, first.document["created"]) == (201, True)
    assert (again.code, again.document) == (200, {"task_id": task_id, "created": False})
    shown = api.get(f"/tasks/{task_id}").document
    assert shown["params"] == {"n": [1, None, "ü"]}
    assert (shown["state"], shown["submitted_by"], shown["tags"]) == ("PENDING", "token:ci", ["a"])
    assert shown["waits"] == ["no node runs: start one with `supervisor run`"]
    (line,) = api.get(f"/tasks/{task_id}/history").document["history"]
    assert (line["operator"], line["to_state"], line["reason"]) == (
        "token:ci", "PENDING", "submitted",
    )  # fmt: skip
    assert api.get(f"/tasks/{task_id}/log").document == {"log": None}


def test_many_are_submitted_in_one_transaction_or_none_is(site: PagesUnderTest, api: Api) -> None:
    done = api.post("/tasks/batch", tasks=[{"type": "many"}, {"type": "many", "dedup_key": "m"}])
    assert (done.code, done.document["created"], done.document["existing"]) == (200, 2, 0)
    worse = {"type": "many", "priority": 12, "params": {"a": "\0"}}
    bad = api.post("/tasks/batch", tasks=[{"type": "many"}, {"typo": 1}, worse])
    assert (bad.code, bad.fields) == (
        422,
        {
            "tasks[1].typo": "is not a field of a task",
            "tasks[1].type": "is missing",
            "tasks[2].params.a": "must not hold a NUL character",
            "tasks[2].priority": "must be a whole number from 0 to 9",
        },
    )
    assert len(api.get("/tasks?type=many").document["tasks"]) == 2
    for wrong in ([], [{"type": "many"}] * 1001, [1], {"type": "many"}):
        assert api.post("/tasks/batch", tasks=wrong).code == 422


def test_whoever_sends_a_task_is_its_submitter(api: Api) -> None:
    told = api.post("/tasks", type="greet", submitted_by="the boss", priority=-1)
    assert (told.code, set(told.fields)) == (422, {"submitted_by", "priority"})


def test_lists_are_paged_by_key(api: Api) -> None:
    made = [submitted(api, queue="paged") for _ in range(7)]
    found: list[str] = []
    path = "/tasks?queue=paged&limit=3"
    following = ""
    while following is not None:
        page = api.get(path + (f"&before={following}" if following else "")).document
        found += [task["task_id"] for task in page["tasks"]]
        following = page["next"]
    assert found == made[::-1]
    assert api.get("/tasks?queue=paged&state=RUNNING&state=FAILED").document["tasks"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("stat=FAILED", "stat"),
        ("state=failed", "state[0]"),
        ("limit=0", "limit"),
        ("limit=1&limit=2", "limit"),
        ("limit=many", "limit"),
        ("before=task_1", "before"),
        ("find=" + "x" * 201, "find"),
    ],
)
def test_what_is_wrong_with_a_query_is_named(api: Api, query: str, field: str) -> None:
    told = api.get(f"/tasks?{query}")
    assert (told.code, list(told.fields)) == (422, [field])


def test_an_act_answers_for_each_id(site: PagesUnderTest, api: Api) -> None:
    first, second = submitted(api), submitted(api)
    done = api.post(f"/tasks/{first}/cancel", reason="wrong month")
    assert (done.code, done.document) == (
        200,
        {"task_id": first, "done": True, "answer": "canceled", "state": "CANCELED", "detail": ""},
    )
    late = api.post(f"/tasks/{first}/cancel", reason="wrong month")
    assert (late.code, late.document["state"], late.document["answer"]) == (
        409, "CANCELED", "already ended",
    )  # fmt: skip
    assert api.post(f"/tasks/{first}/rerun", reason="again").code == 409
    many = api.post(
        "/tasks/cancel", reason="all of them", task_ids=[first, second, NOWHERE]
    ).document
    assert (many["done"], many["refused"]) == (1, 2)
    assert [one["answer"] for one in many["answers"]] == ["already ended", "canceled", "not found"]
    end = site.client.history(second)[-1]
    assert (end.operator, end.to_state, end.note) == ("token:ci", "CANCELED", "all of them")
    assert api.post(f"/tasks/{NOWHERE}/cancel", reason="x").code == 404
    assert api.post(f"/tasks/{first}/frobnicate", reason="x").code == 404
    for body in ({}, {"reason": ""}, {"reason": " \t"}, {"reason": 1}, {"reason": "x" * 1001}):
        told = api.post(f"/tasks/{second}/rerun", **body)
        assert (told.code, list(told.fields)) == (422, ["reason"])
    assert list(api.post(f"/tasks/{second}/rerun", reason="x", force=True).fields) == ["force"]


def test_an_act_on_all_of_a_query_is_begun_followed_and_over(api: Api) -> None:
    api.post("/tasks/batch", tasks=[{"type": "masses"}] * 300)
    bad = api.post("/bulk", verb="cancel", query="stat:failed", reason="x")
    assert (bad.code, list(bad.fields), bad.document["position"]) == (422, ["query"], 0)
    assert "Did you mean `state:`?" in bad.document["remedy"]
    begun = api.post("/bulk", verb="cancel", query="type:masses", reason="all of them")
    assert (begun.code, begun.document["operator"]) == (202, "token:ci")
    path = f"/bulk/{begun.document['bulk_id']}"
    ended = eventually(lambda: (told := api.get(path).document)["ended_at"] and told, 30.0)
    assert (ended["total"], ended["done"], ended["answers"]) == (300, 300, {"canceled": 300})
    assert api.get("/tasks/count?q=type:masses%20state:canceled").document["count"] == 300
    assert api.post(f"{path}/stop", reason="late").document == {"stopped": False}
    assert api.get("/bulk/bulk_none").code == 404
    wrong = api.get("/tasks?q=ran:soon")
    assert (wrong.code, list(wrong.fields), wrong.document["position"]) == (422, ["q"], 4)


def test_queues_are_paused_and_only_the_pause_that_was_seen_is_ended(api: Api) -> None:
    paused = api.post("/queues/bank/pause", reason="it is down", priority=3).document
    assert (paused["changed"], paused["now"]["paused"], paused["now"]["by"]) == (
        True, True, "token:ci",
    )  # fmt: skip
    assert (
        api.post("/queues/bank/pause", reason="it is down", priority=3).document["changed"] is False
    )
    other = api.post(
        "/queues/bank/resume", reason="x", priority=3, paused_at="2026-01-01T00:00:00Z"
    )
    assert (other.code, "was paused anew by token:ci" in other.document["detail"]) == (409, True)
    at = paused["now"]["at"]
    went_on = api.post("/queues/bank/resume", reason="x", priority=3, paused_at=at).document
    assert (went_on["changed"], went_on["now"]["paused"]) == (True, False)
    assert {"bank"} <= {one["queue"] for one in api.get("/queues").document["pauses"]}
    assert api.post("/queues/bank/pause", reason="x", priority=10).code == 422
    assert api.post("/queues/a%20b/pause", reason="x").code == 404


def test_the_numbers_and_the_audit_are_those_of_the_pages(site: PagesUnderTest, api: Api) -> None:
    numbers = api.get("/numbers").document
    pending = api.get("/tasks/count?q=state:pending").document["count"]
    assert numbers["by_state"]["PENDING"] == numbers["in_queue"] == pending
    assert numbers["ended"][0]["type"] is None
    at, *counted = [
        datetime.fromisoformat(numbers[name]) for name in ("at", "counted_at", "window_at")
    ]
    assert all(abs(moment - at) < timedelta(seconds=30) for moment in counted)
    hour = api.get("/numbers/hour").document
    last, counted_at = hour["minutes"][-1], datetime.fromisoformat(hour["counted_at"])
    assert last["waiting"] == pending
    over = counted_at - datetime.fromisoformat(last["at"])
    assert timedelta(seconds=-1) < over < timedelta(seconds=60)
    needs = api.get("/attention").document
    first = needs["findings"][0]
    assert (first["urgency"], first["path"]) == ("now", "/nodes")
    assert first["text"].startswith(f"No node runs: {pending} task")
    assert (needs["zombies"], needs["oldest_running"], needs["survival"]) == (
        {"lost": 0}, None, None,
    )  # fmt: skip
    lines = api.get("/audit?limit=2&people=true").document
    assert len(lines["lines"]) == 2
    assert api.get(f"/audit?before={lines['next']}&limit=1").code == 200
    assert api.get("/audit?before=99999999999999999999").code == 422
    assert api.get("/audit?since=2026-01-01T00:00:00").code == 422
    submitted(api)
    mine = api.get("/audit?operator=token:ci").document
    assert mine["without_submits"]
    assert "submitted" not in {line["reason"] for line in mine["lines"]}
    asked = api.get("/audit?operator=token:ci&reason=submitted").document
    assert ({line["reason"] for line in asked["lines"]}, asked["without_submits"]) == (
        {"submitted"}, False,
    )  # fmt: skip
    told = {line["reason"] for line in api.get("/audit?limit=500").document["lines"]}
    assert "token_created" not in told  # only who manages access is told who came in


def test_bundles_are_listed_and_taken_home(site: PagesUnderTest, api: Api) -> None:
    task_id = submitted(api)
    record = site.add_autopsy(task_id, "evidence-7", verdict="stalled")
    (found,) = api.get("/autopsies?verdict=stalled").document["autopsies"]
    assert (found["autopsy_id"], found["task_id"], found["type"]) == (
        "evidence-7",
        task_id,
        "greet",
    )
    assert found == api.get("/autopsies/evidence-7").document
    assert "path" not in found
    (mine,) = api.get(f"/tasks/{task_id}").document["autopsies"]
    assert mine["autopsy_id"] == "evidence-7"
    file = Path(record.path).read_bytes()
    looked = api.get("/autopsies/evidence-7/bundle", "HEAD")
    assert (looked.code, looked.headers["Content-Length"]) == (200, str(len(file)))
    part = api.get("/autopsies/evidence-7/bundle", Range="bytes=1-")
    assert part.headers["Cache-Control"] == "no-store"
    assert (part.code, part.body, part.headers["Accept-Ranges"]) == (200, file, "none")
    taken = [note for note in site.notes() if note[1] == "autopsy_downloaded"]
    assert taken == [("token:ci", "autopsy_downloaded", "evidence-7")]
    Path(record.path).unlink()
    gone = api.get("/autopsies/evidence-7/bundle")
    assert (gone.code, "not on this host" in gone.document["detail"]) == (404, True)
    assert api.get("/autopsies/evidence-8").code == 404
    assert api.get("/autopsies/..%2f..%2fetc%2fpasswd/bundle").code == 404


def test_what_waits_for_the_same_is_a_group_whose_tasks_are_acted_on_as_they_were_seen(
    site: PagesUnderTest, api: Api
) -> None:
    ids = [submitted(api) for _ in range(3)]
    wait = "thread_locks: thread 1 (T-1) waits for the lock `Bank._lock`, which X holds"
    told = [{"code": "blocked.db_lock", "confidence": 0.9, "evidence": [wait]}]
    for n, task_id in enumerate(ids):
        site.add_autopsy(
            task_id, f"w{n}", diagnosis_json=json.dumps(told), verdict="waits", node_id="node_w"
        )
    wanted = "node_id=node_w&since=2026-01-01T00:00:00Z"
    found = api.get(f"/autopsies/groups?{wanted}").document
    (group,) = found["groups"]
    assert (found["counted"], found["is_all"], group["autopsies"]) == (3, True, 3)
    assert (group["code"], group["what"]) == (
        "blocked.db_lock", "waits for the lock Bank._lock",
    )  # fmt: skip
    assert (group["types"], set(group["task_ids"])) == ({"greet": 3}, set(ids))
    now = api.get(f"/autopsies/groups/{group['key']}?{wanted}").document
    assert now["group"] == group
    seen = {
        one["task_id"]: {"state": one["state"], "attempt": one["attempt"]} for one in now["tasks"]
    }
    assert set(seen) == set(ids)
    site.client.cancel(ids[1], by="bob", reason="meanwhile")
    acted = api.post("/tasks/cancel", task_ids=ids, reason="the bank is down", seen=seen).document
    assert [(one["task_id"], one["answer"]) for one in acted["answers"]] == [
        (ids[0], "canceled"), (ids[1], "changed meanwhile"), (ids[2], "canceled"),
    ]  # fmt: skip
    stray = api.post("/tasks/cancel", task_ids=ids[:1], reason="x", seen={ids[1]: seen[ids[1]]})
    assert (stray.code, list(stray.fields)) == (422, [f"seen.{ids[1]}"])
    assert api.get("/autopsies/groups/0123456789abcdef").code == 404
    assert api.get("/autopsies/groups/x").code == 404
    assert api.get("/autopsies?node_id=node_w&diagnosis=none").document["autopsies"] == []
    assert api.get("/autopsies?until=2026-01-01T00:00:00Z").document["autopsies"] == []


def test_a_bundle_is_opened_from_the_store_and_from_a_file(
    site: PagesUnderTest, api: Api, tmp_path: Path
) -> None:
    record = site.add_autopsy(None, "whole")
    shown = api.get("/autopsies/whole/evidence")
    file = Path(record.path).read_bytes()
    opened = send(api, file, "?name=from%20Bob.zip")
    assert (shown.code, opened.code, opened.document) == (200, 200, shown.document)
    names = {one["name"]: one for one in opened.document["sections"]}
    assert names["facts"]["content"]["type"]
    assert opened.document["causes"][0]["code"] == record.diagnosis
    assert site.notes()[-2:] == [
        ("token:ci", "autopsy_downloaded", "whole"),
        ("token:ci", "bundle_opened", "from Bob.zip"),
    ]
    for bad in (b"", b"PK\x03\x04 torn", file[:-100], file.replace(b"manifest", b"manifesT")):
        refused = send(api, bad, "?name=%0Abad.zip")
        assert (refused.code, "bundle" in refused.document["detail"]) == (422, True)
        assert site.notes()[-1][1] == "bundle_refused"
    assert api.ask("POST", "/autopsies/open", file, Content_Type="text/plain").code == 415
    assert send(api, bytes(UPLOAD_MAX_BYTES + 1)).code == 413
    assert site.notes()[-1][2] == "too large: POST /api/v1/autopsies/open from 127.0.0.1"
    plain = Api(site.base, site.add_token("blind", Role.OPERATOR))
    assert send(plain, file).code == plain.get("/autopsies/whole/evidence").code == 403
    Path(record.path).unlink()
    assert api.get("/autopsies/whole/evidence").code == 404


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [NaN, -Infinity, 1e400, "NaN"]}', '{"a": "\\ud800"}', '{"\\ud800": 1}',
        '{"a": 123456789012345678901234567890}', '{"a": ' + "[" * 900 + "]" * 900 + "}",
        '{"a": ' + "[" * 90_000 + "]" * 90_000 + "}", '{"a": "\\u0000"}',
    ],
    ids=["no-number", "surrogate", "name", "long", "deep", "deeper", "nul"],
)  # fmt: skip
def test_whatever_a_file_holds_is_answered_as_json(
    site: PagesUnderTest, api: Api, tmp_path: Path, text: str
) -> None:
    answer = send(api, forged(tmp_path, {"facts": text}))
    assert answer.code in (200, 422)
    assert json.loads(answer.body, parse_constant=pytest.fail)
    assert "web.failed" not in site.log.read_text()


@pytest.mark.parametrize(
    "changes",
    [{"pid": "<b>"}, {"tools": {"a": 1}}, {"diagnosis": 3}, {"host": None}, {"captured_at": [1]}],
    ids=str,
)
def test_a_manifest_that_lies_is_refused(api: Api, tmp_path: Path, changes: dict[str, Any]) -> None:
    assert send(api, forged(tmp_path, {}, **changes)).code == 422


def send(api: Api, content: bytes, query: str = "") -> Told:
    return api.ask("POST", f"/autopsies/open{query}", content, Content_Type="application/zip")


def forged(root: Path, texts: dict[str, str], **changes: Any) -> bytes:
    """Return a bundle with other contents, whose sums are right."""
    good, made = root / "good.zip", io.BytesIO()
    write_bundle(good, HEADING, sections(), "as text", is_clean=True)
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(made, "w") as new:
        manifest = {**json.loads(old.read("manifest.json")), **changes}
        found = {name: old.read(name) for name in old.namelist()}
        for section in manifest["sections"]:
            if section["name"] in texts:
                found[section["file"]] = texts[section["name"]].encode()
                section["sha256"] = hashlib.sha256(found[section["file"]]).hexdigest()
        for name, content in found.items():
            new.writestr(name, json.dumps(manifest) if name == "manifest.json" else content)
    return made.getvalue()


def test_methods_and_media_are_as_http_wants_them(api: Api) -> None:
    assert api.get("/tasks", "HEAD").body == b""
    assert set(api.get("/tasks", "OPTIONS").headers["Allow"].split(", ")) == {
        "GET", "HEAD", "OPTIONS", "POST",
    }  # fmt: skip
    wrong = api.get("/numbers", "DELETE")
    assert (wrong.code, set(wrong.headers["Allow"].split(", "))) == (
        405,
        {"GET", "HEAD", "OPTIONS"},
    )
    assert api.get("/nothing").code == 404
    plain = api.ask("POST", "/tasks", b'{"type": "greet"}', Content_Type="text/plain")
    assert plain.code == 415
    for body in (b"", b"[", b"\xff", b"[" * 5000, b'{"type": 1e999}', b"nul"):
        assert api.ask("POST", "/tasks", body, Content_Type="application/json").code == 400
    assert api.ask("POST", "/tasks", b"[]", Content_Type="application/json").code == 422
    surrogate = b'{"type": "greet", "params": {"a": "\\ud800"}}'
    assert api.ask("POST", "/tasks", surrogate, Content_Type="application/json").code == 400
    huge = json.dumps({"type": "greet", "params": {"a": "x" * 600_000}}).encode()
    assert api.ask("POST", "/tasks", huge, Content_Type="application/json").code == 413


def test_what_no_store_can_keep_is_refused(site: PagesUnderTest, api: Api) -> None:
    for path in ("/tasks?find=%00", "/audit?operator=%00", "/autopsies?type=a%00b", "/tasks/%00"):
        assert api.get(path).code == 400
    browser = site.opened()
    for path in ("/tasks?find=%00", "/audit?operator=%00", "/autopsies?type=%00", "/autopsies/%00"):
        assert browser.get(path).code == 400
    assert "web.failed" not in site.log.read_text()
