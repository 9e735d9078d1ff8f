"""The list of tasks: found by queries, paged both ways, as a file, and acted on in numbers."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import eventually
from pages import Answer, Browser, PagesUnderTest, pages

from supervisor.model.access import Role
from supervisor.model.states import State
from supervisor.store import TaskFilter

HOSTILE = "=cmd|' /C calc'!A0<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("pages")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(site: PagesUnderTest) -> Browser:
    return site.opened()


def submit(site: PagesUnderTest, count: int, type: str, **spec: object) -> list[str]:
    specs = [{"type": type, "params": {}, **spec} for _ in range(count)]
    return [handle.task_id for handle in site.app.submit_many(specs)]


def ids_on(answer: Answer) -> list[str]:
    return re.findall(r'title="(task_[0-9a-f]{32})"', answer.text)


def link(answer: Answer, rel: str) -> str | None:
    found = re.search(rf'rel="{rel}" href="([^"]+)"', answer.text)
    return None if found is None else html.unescape(found[1])


def told(answer: Answer) -> str:
    found = re.search(r'<p class="(?:found|empty)">(.*?)</p>', answer.text, re.DOTALL)
    assert found is not None, answer.text
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", found[1])).split())


def chosen(site: PagesUnderTest, *task_ids: str) -> list[str]:
    views = [site.client.view(task_id) for task_id in task_ids]
    return [f"{view.task_id}.{view.state}.{view.attempt}" for view in views]


def post(browser: Browser, **fields: str | list[str]) -> Answer:
    """Send the form of the list; a field may have several values."""
    token = browser.get("/tasks").token()
    return browser.post_all("/bulk", [("csrf_token", token), *(
        (name, one) for name, value in fields.items()
        for one in (value if isinstance(value, list) else [value])
    )])  # fmt: skip


def test_a_query_is_paged_both_ways_and_both_orders(site: PagesUnderTest, browser: Browser) -> None:
    made = submit(site, 120, "paged")
    first = browser.get("/tasks?q=type:paged")
    assert ids_on(first) == made[:-51:-1]
    assert told(first).startswith("120 tasks · newest first (turn round)")
    assert link(first, "prev") is None
    second = browser.get(link(first, "next") or "")
    assert ids_on(second) == made[-51:-101:-1]
    third = browser.get(link(second, "next") or "")
    assert ids_on(third) == made[19::-1]
    assert link(third, "next") is None
    back = browser.get(link(third, "prev") or "")
    assert ids_on(back) == ids_on(second)
    assert ids_on(browser.get(link(back, "prev") or "")) == ids_on(first)
    oldest = browser.get("/tasks?q=type:paged&sort=oldest")
    assert ids_on(oldest) == made[:50]
    more = browser.get(link(oldest, "next") or "")
    assert ids_on(more) == made[50:100]
    assert ids_on(browser.get(link(more, "prev") or "")) == made[:50]


def test_older_addresses_are_read_as_queries(site: PagesUnderTest, browser: Browser) -> None:
    (task_id,) = submit(site, 1, "old.one", queue="q:1", tags=("a b",))
    page = browser.get("/tasks?type=old.one&queue=q:1&tag=a+b&state=PENDING&state=running&find=old")
    assert ids_on(page) == [task_id]
    box = re.search(r'id="q"[^>]* value="([^"]*)"', page.text)
    assert box is not None
    query = html.unescape(box[1])
    assert query == 'state:pending,running type:old.one queue:q:1 tag:"a b" old'
    for wrong in ("state=DONE", "state=a+b:c", "before=../x", "before=task_1", "sort=up",
                  f"before={task_id}&after={task_id}"):  # fmt: skip
        assert browser.get(f"/tasks?{wrong}").code == 400


def test_what_cannot_be_read_is_shown_in_its_place(browser: Browser) -> None:
    page = browser.get("/tasks?q=type:x+stat:failed+y")
    assert page.code == 400
    assert "<code>type:x <mark>stat:</mark>failed y</code>" in page.text
    assert (
        "There is no qualifier <code>stat:</code>. Did you mean <code>state:</code>?" in page.text
    )
    assert told(page) == "The query could not be read; nothing was looked for."
    hostile = browser.get("/tasks?q=%3Cscript%3Ealert(1)%3C/script%3E:%22")
    assert "<script>alert" not in hostile.text


def test_what_cannot_be_read_is_told_in_the_tongue_of_who_reads(browser: Browser) -> None:
    page = browser.get("/tasks?q=stat:failed", accept_language="zh-CN")
    assert "没有 <code>stat:</code> 这个限定词。 您是指 <code>state:</code> 吗？" in page.text
    assert "<dd>提交者</dd>" in page.text


def test_acts_on_many_run_nothing_of_what_people_wrote(
    site: PagesUnderTest, browser: Browser
) -> None:
    fields = {"q": f'"{HOSTILE}"'.replace(HOSTILE, HOSTILE.replace('"', "")), "verb": "cancel",
              "reason": HOSTILE, "scope": "all", "back": "/tasks"}  # fmt: skip
    asked = post(browser, **fields)
    begun = site.client.bulk.begin("cancel", fields["q"], by=HOSTILE, reason=HOSTILE)
    site.client.bulk.stop(begun.bulk_id, by=HOSTILE, reason=HOSTILE)
    for page in (asked, browser.get(f"/bulk/{begun.bulk_id}"), browser.get("/bulk")):
        assert page.code == 200
        assert "<img" not in page.text
        assert "<script>alert" not in page.text
        assert "&lt;img src=x" in page.text


def test_views_are_addresses(browser: Browser) -> None:
    page = browser.get("/tasks")
    links = re.findall(r'class="chip" href="([^"]+)"', page.text)
    assert len(links) == 9
    for address in links:
        answer = browser.get(html.unescape(address))
        assert (answer.code, answer.text.count('class="chip" href')) == (200, 9)
        assert answer.text.count('aria-current="page">') >= 1


def test_a_file_of_tasks_runs_nothing_in_a_spreadsheet(
    site: PagesUnderTest, browser: Browser
) -> None:
    ids = submit(site, 3, "hostile", queue="q", submitted_by=HOSTILE, tags=("@t",))
    answer = browser.get("/tasks.csv?q=type:hostile")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == "attachment; filename=tasks.csv"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["task_id"] for row in rows] == ids[::-1]
    for row in rows:
        assert (row["submitted_by"], row["tags"]) == (f"'{HOSTILE}", "'@t")
        assert (row["state"], row["attempts"], row["ended"]) == ("PENDING", "0", "")
    assert browser.get("/tasks.csv?q=stat:x").code == 400
    listed = browser.get("/tasks?q=type:hostile")
    assert "<img" not in listed.text
    assert ids_on(listed) == ids[::-1]


def test_chosen_tasks_are_acted_on_as_they_were_seen(
    site: PagesUnderTest, browser: Browser
) -> None:
    ids = submit(site, 3, "chosen")
    boxes = chosen(site, *ids)
    site.client.cancel(ids[0], by="bert", reason="first")
    done = post(browser, chosen=boxes, verb="cancel", reason="mine", back="/tasks?q=type:chosen")
    assert done.path == "tasks?q=type:chosen"
    assert done.flash == (
        f"Cancel: 2 canceled, 1 changed meanwhile (…{ids[0][-8:]}: "
        "it was PENDING (attempt 0) when you looked and is CANCELED (attempt 0) now)"
    )
    assert f"canceled by {browser_name(site)}: mine" in done.text
    assert "canceled by bert: first" in done.text
    for fields in (
        {"reason": " ", "chosen": boxes},
        {"reason": "x", "chosen": []},
    ):
        assert post(browser, verb="cancel", **fields).flash.startswith("Nothing was done")
    for fields in ({"verb": "explode"}, {"chosen": ["task_1.PENDING.0"]}):
        given = {"verb": "cancel", "reason": "x", "chosen": boxes, **fields}
        assert post(browser, **given).code == 400
    elsewhere = post(browser, chosen=boxes, verb="cancel", reason="x", back="//evil.example/")
    assert elsewhere.heading == "Overview"


def browser_name(site: PagesUnderTest) -> str:
    return str(site.client.reader.audit(limit=1)[0].operator)


def test_all_of_a_query_are_canceled_after_a_page_has_said_what_that_is(
    site: PagesUnderTest, browser: Browser
) -> None:
    ids = submit(site, 450, "many")
    page = browser.get("/tasks?q=type:many")
    seen = re.search(r'name="seen" value="([^"]+)"', page.text)
    assert seen is not None
    (late,) = submit(site, 1, "many")
    fields = {"q": "type:many", "verb": "cancel", "reason": "wrong month", "scope": "all",
              "seen": html.unescape(seen[1]), "back": "/tasks?q=type:many"}  # fmt: skip
    asked = post(browser, **fields)
    assert asked.heading == "Cancel: all 450 tasks"
    assert "type:many state:pending,running submitted:&lt;=" in asked.text
    assert site.client.view(ids[0]).state is State.PENDING
    begun = post(browser, **fields, confirmed="yes")
    assert begun.path.startswith("bulk/bulk_")

    def over() -> bool:
        return browser.get(f"/{begun.path}").heading == "Cancel: done"

    eventually(over, 20)
    ended = browser.get(f"/{begun.path}")
    assert "450 of 450 gone through:" in ended.text
    assert re.search(r"<td>canceled</td><td class=\"number\">450</td>", ended.text)
    left = site.client.reader.tasks(TaskFilter(types=("many",), states=(State.PENDING,)))
    assert [task.task_id for task in left.tasks] == [late]
    assert "data-refresh" not in ended.text
    listed = browser.get("/bulk")
    assert f'href="/{begun.path}"' in listed.text
    assert post(browser, **{**fields, "q": "stat:x"}).code == 400
    none = post(browser, **{**fields, "verb": "rerun"})
    assert none.heading == "Run again: all 0 tasks"
    assert "None of the tasks of this query is in a state" in none.text
    token = browser.get("/tasks").token()
    stopped = browser.post(f"/{begun.path}/stop", token, reason="late")
    assert stopped.flash == "It is over already."
    assert browser.get("/bulk/bulk_1").code == 404


def test_a_viewer_sees_and_does_not_act(tmp_path: Path) -> None:
    with pages(tmp_path) as site:
        site.add_user("vera", Role.VIEWER)
        (task_id,) = submit(site, 1, "greet")
        begun = site.client.bulk.begin("cancel", "type:none", by="ann", reason="r")
        vera = site.browser()
        vera.sign_in("vera")
        page = vera.get("/tasks")
        assert ids_on(page) == [task_id]
        assert 'name="chosen"' not in page.text
        assert 'action="/bulk"' not in page.text
        assert vera.get(f"/bulk/{begun.bulk_id}").code == 200
        token = page.token()
        for path in ("/bulk", f"/bulk/{begun.bulk_id}/stop"):
            assert vera.post(path, token, reason="x", verb="cancel").code == 403
        assert site.client.view(task_id).state is State.PENDING
