"""The page of one task: what is seen now, evidence on demand, copies, two people at once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from harness import NodeUnderTest, Start, eventually
from pages import Answer, Browser, PagesUnderTest, pages

from supervisor.model.record import NodeRecord, Owner
from supervisor.model.states import State
from supervisor.node.process import own_identity

#: What nobody may be shown of the params of a task.
SECRET = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("task-pages")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(site: PagesUnderTest) -> Browser:
    return site.opened()


def submit(site: PagesUnderTest, type: str = "greet", **spec: object) -> str:
    return site.app.submit({"type": type, "params": {}, **spec}).task_id


def part(page: Answer, name: str) -> str:
    """Return one part of a page that refreshes itself, without markup."""
    found = re.search(rf'<section id="{name}".*?</section>', page.text, re.DOTALL)
    assert found is not None, page.text
    return " ".join(re.sub(r"<[^>]*>", " ", found[0]).split())


def follow(node: NodeUnderTest, root: Path) -> PagesUnderTest:
    """Make pages for the store of a node."""
    site = PagesUnderTest(root)
    site.env["SUPERVISOR_STORE"] = node.url
    site.env["SUPERVISOR_AUTOPSY_DIR"] = node.env.get(
        "SUPERVISOR_AUTOPSY_DIR", str(node.root / "autopsies")
    )
    site.env["XDG_RUNTIME_DIR"] = node.env["XDG_RUNTIME_DIR"]
    return site.start()


def test_a_hopeless_task_is_seen_examined_and_followed_until_it_is_gone(
    start_node: Start, tmp_path: Path
) -> None:
    node = start_node(timeout=200, workers=1)
    site = follow(node, tmp_path)
    try:
        browser = site.opened()
        handle = node.submit("wait")
        node.started(handle)
        path = f"/tasks/{handle.task_id}"
        first = part(browser.get(path), "probe")
        assert "No reading" in first or "Heartbeat" in first  # it may have been read by now
        seen = eventually(
            lambda: (text := part(browser.get(path), "probe")) and "Heartbeat" in text and text, 15
        )
        assert re.search(r"Heartbeat [\d.]+ m?s ago", str(seen))
        assert re.search(r"Memory [\d.]+ MiB", str(seen))
        assert re.search(r"Read [\d.]+ m?s ago by its node", str(seen))
        behind = f"/tasks/{node.submit('wait').task_id}"
        busy = "It waits: no worker is free, 1 of 1 are busy"
        eventually(lambda: busy in browser.get(behind).text, 15, "it is said why it waits")
        asked = browser.act(handle.task_id, "capture", "looks stuck")
        assert asked.flash == "Asked of its node: the answer is shown below when it comes."
        eventually(lambda: "bundle " in part(browser.get(path), "acts"), 25, "it is answered")
        page = browser.get(path)
        told = part(page, "acts")
        assert "take evidence of attempt 1 now" in told
        assert "looks stuck" in told
        assert "asked" in part(page, "autopsies")
        assert browser.act(handle.task_id, "cancel", "enough").flash == "Cancel: requested"
        assert "not yet" in part(browser.get(path), "ladder") or handle.state() is not State.RUNNING
        assert handle.wait(30).state is State.CANCELED
        ladder = part(browser.get(path), "ladder")
        assert "requested" in ladder
        assert "verified gone" in ladder
        assert "not yet" not in ladder
        late = browser.post(f"{path}/capture", page.token(), reason="late", **_seen(page))
        assert late.flash.startswith(f"Nothing was done: {handle.task_id} is CANCELED")
    finally:
        site.close()


def _seen(page: Answer) -> dict[str, str]:
    return {name: value for name, value in page.hidden().items() if name.startswith("seen_")}


def test_the_output_of_what_runs_is_shown_as_it_comes(start_node: Start, tmp_path: Path) -> None:
    node = start_node("tests.programs.tasks_talking:app", timeout=200)
    site = follow(node, tmp_path)
    try:
        browser = site.opened()
        handle = node.submit("hangs", text="half way there")
        node.started(handle)
        path = f"/tasks/{handle.task_id}"
        told = eventually(
            lambda: (text := part(browser.get(path), "output")) and "half way" in text and text, 10
        )
        assert str(told).startswith("Output live, its end")
        node.kill()
        told = part(browser.get(path), "now")
        assert "RUNNING is its last word" in told
        assert "its node is gone" in part(browser.get(path), "probe")
        node.client.orders.ask(
            None, "capture", task_id=handle.task_id, attempt=1, by="a", reason="b"
        )
        gone = "its node is gone: it ended before it answered"
        assert gone in part(browser.get(path), "acts")
        node.start()
        assert node.client.orders.of_task(handle.task_id)[0].answer == gone
        assert gone in part(browser.get(path), "acts")
    finally:
        site.close()


def test_progress_has_a_rate_and_a_time_left_as_its_node_saw_them(
    site: PagesUnderTest, browser: Browser
) -> None:
    task_id = submit(site, "steady")
    ledger = site.client._ledger(create=False)
    now = ledger.clock.now()
    node = NodeRecord(
        node_id="node_here", node_name="here", process=own_identity(), version="0", started_at=now
    )
    ledger.run(lambda tx: tx.register_node(node))
    owner = Owner("node_here-w1", os.getpid(), 1)
    claimed = {"node_id": "node_here", "queues": None, "types": {"steady"}, "now": now}
    ledger.run(lambda tx: tx.claim([owner], **claimed))  # type: ignore[arg-type]
    path = f"/tasks/{task_id}"
    assert "has said nothing for two minutes" in part(browser.get(path), "probe")
    for ago_s, done in ((10, 1000), (5, 1500), (0, 2000)):
        worker = {
            "slot": 0, "worker_id": "node_here-w1", "pid": 1, "state": "busy", "rss": 2**20,
            "cpu_s": 100.0 - ago_s / 2, "fds": 7, "heartbeat_age_s": 0.4, "task_id": task_id,
            "attempt": 1, "since_progress_s": 1.0, "progress": [done, 10_000],
            "verdict": "stalled" if ago_s == 0 else None,
        }  # fmt: skip
        at = now - timedelta(seconds=ago_s)
        document = json.dumps({"node": {"stage": "running"}, "workers": [worker]})
        ledger.run(lambda tx, at=at, told=document: tx.vitals.write("node_here", at, told))
    told = part(browser.get(path), "probe")
    assert "20% · 2,000 of 10,000 · 100 a second · about 1 m 20 s left stalled" in told
    assert "CPU 50%" in told
    assert "Memory 1.0 MiB" in told
    ledger.run(lambda tx: tx.end_node("node_here", now, "over"))
    assert "Its node is gone" in part(browser.get(path), "now")


def test_an_act_on_what_has_changed_meanwhile_is_refused_with_what_it_is_now(
    site: PagesUnderTest, browser: Browser
) -> None:
    task_id = submit(site)
    first, second = browser.get(f"/tasks/{task_id}").hidden(), browser.get(f"/tasks/{task_id}")
    assert (first["seen_state"], first["seen_attempt"]) == ("PENDING", "0")
    assert browser.act(task_id, "cancel", "mine").flash == "Cancel: canceled"
    stale = browser.post(f"/tasks/{task_id}/cancel", None, reason="mine too", **second.hidden())
    assert stale.flash == (
        "Cancel: changed meanwhile (it was PENDING (attempt 0) when you looked and is CANCELED "
        "(attempt 0) now)"
    )
    assert stale.heading == "greet CANCELED"
    for wrong in ({"seen_state": "GONE"}, {"seen_attempt": "x"}, {"seen_attempt": "²"}):
        fields = {**first, **wrong}
        assert browser.post(f"/tasks/{task_id}/cancel", None, reason="x", **fields).code == 400


def test_a_copy_is_submitted_once_for_each_form(site: PagesUnderTest, browser: Browser) -> None:
    task_id = submit(site, params={"who": "anna"}, dedup_key="k1", tags=("a",))
    browser.act(task_id, "cancel", "wrong hour")
    form = browser.get(f"/tasks/{task_id}").hidden()
    made = [
        browser.post(f"/tasks/{task_id}/resubmit", None, reason="again", **form) for _ in range(2)
    ]
    assert {one.path for one in made} == {f"tasks/{form['copy_id']}"}
    assert made[0].flash == "This is the copy: it is due now."
    assert f"a copy of …{task_id[-8:]}" in part(made[0], "facts")
    assert "its copy is" in part(browser.get(f"/tasks/{task_id}"), "facts")
    copy = site.client.view(form["copy_id"])
    assert (copy.state, copy.params_json) == (State.PENDING, '{"who":"anna"}')
    assert copy.dedup_key is None


def test_children_and_parent_lead_to_each_other(site: PagesUnderTest, browser: Browser) -> None:
    parent = submit(site, "parent")
    child = submit(site, "child", parent_id=parent)
    assert f"…{child[-8:]} child PENDING" in part(browser.get(f"/tasks/{parent}"), "facts")
    assert f"…{parent[-8:]}" in part(browser.get(f"/tasks/{child}"), "facts")


def test_what_is_secret_of_a_task_is_on_no_part_of_its_page(
    site: PagesUnderTest, browser: Browser
) -> None:
    site.client.change_access(lambda _, now: None)  # opens the store
    ledger = site.client._ledger(create=False)
    now = ledger.clock.now()
    ledger.run(
        lambda tx: tx.record_types({"vault": None}, "node_x", now, {"vault": ["phrase"]})
    )  # as a node that knows the type does
    task_id = submit(site, "vault", params={"phrase": SECRET, "amount": 5})
    browser.act(task_id, "cancel", f"it says {SECRET}")
    page = browser.get(f"/tasks/{task_id}")
    assert SECRET not in page.text
    assert "phrase" in part(page, "said")
    assert "5" in part(page, "said")


def test_the_course_is_drawn_with_the_path_lit(site: PagesUnderTest, browser: Browser) -> None:
    task_id = submit(site)
    text = browser.get(f"/tasks/{task_id}").text
    assert text.count('class="way lit"') == 1
    assert 'class="stop pending lit here"' in text
    browser.act(task_id, "cancel", "x")
    text = browser.get(f"/tasks/{task_id}").text
    assert text.count('class="way lit"') == 2
    assert 'class="stop canceled lit here"' in text


def test_of_a_very_long_trail_the_end_is_shown_and_it_is_said_where_the_rest_is(
    site: PagesUnderTest, browser: Browser
) -> None:
    task_id = submit(site)
    ledger = site.client._ledger(create=False)

    def noted(count: int) -> Answer:
        now = ledger.clock.now()
        with ledger.transaction() as tx:
            for number in range(count):
                tx.note(task_id, None, reason="seen", text=f"note {number}", now=now)
        return browser.get(f"/tasks/{task_id}")

    told = "The latest 1,000 rows are told here and drawn above."
    page = noted(999)
    assert (told in page.text, page.text.count(">note</span>")) == (False, 999)
    page = noted(1)
    assert (told in page.text, page.text.count(">note</span>")) == (True, 1000)
    assert f'href="/audit?task={task_id}"' in page.text


def test_who_only_looks_is_offered_nothing_and_can_do_nothing(site: PagesUnderTest) -> None:
    site.add_user("viewer")
    task_id = submit(site)
    visitor = site.browser()
    visitor.sign_in("viewer")
    page = visitor.get(f"/tasks/{task_id}")
    assert "formaction" not in page.text
    for verb in ("cancel", "capture", "resubmit"):
        refused = visitor.post(f"/tasks/{task_id}/{verb}", page.token(), reason="x")
        assert refused.code == 403
    assert site.client.view(task_id).state is State.PENDING
    assert site.client.orders.of_task(task_id) == []
