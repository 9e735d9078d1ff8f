"""Dead letters on the page, and acts on many that outlive the process that carries them out."""

from __future__ import annotations

import html
import json
import re
import signal
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import pytest
import sqlalchemy as sa
from harness import eventually
from pages import Answer, PagesUnderTest, pages

from supervisor.client import Client
from supervisor.model import outcome as ended
from supervisor.model.bulk import BulkAct, BulkVerb
from supervisor.model.outcome import Outcome
from supervisor.model.record import Ending, Owner
from supervisor.model.retry import RetryPolicy
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State
from supervisor.settings import Settings
from supervisor.store import Ledger, bulk
from supervisor.store.bulk import BulkDesk
from supervisor.store.session import Ordered
from supervisor.web.carrier import Carrier

POLICY = RetryPolicy(max_retries=0, base_s=10, max_s=3600, max_crashes=1)
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\x1b[2J\u202ex"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PagesUnderTest]:
    with pages(tmp_path) as made:
        yield made


def die(site: PagesUnderTest, count: int, how: Outcome, type: str = "greet") -> list[str]:
    """Submit tasks and end them at once, as a node would."""
    site.app.submit_many([{"type": type, "params": {}} for _ in range(count)])
    ledger = Ledger(site.client.reader.store)
    now = ledger.clock.now()
    owners = [Owner(f"worker_{n}", 100 + n, 1) for n in range(count)]
    with ledger.transaction() as tx:
        claims = tx.claim(owners, node_id="node_a", queues=None, types={type}, now=now)
        tx.finish([
            Ending(task_id=claim.task_id, attempt=claim.attempt, outcome=how, policy=POLICY,
                   ended_at=now)
            for claim in claims
        ])  # fmt: skip
    assert len(claims) == count
    return [claim.task_id for claim in claims]


def forms(answer: Answer) -> list[dict[str, str]]:
    """Return the hidden fields of each form that acts, and its button."""
    found = re.findall(r'<form method="post" action="/bulk">(.*?)</form>', answer.text, re.DOTALL)
    fields = [re.findall(r'name="(\w+)" value="([^"]*)"', one) for one in found]
    return [{name: html.unescape(value) for name, value in one} for one in fields]


def test_a_group_runs_again_as_a_whole(site: PagesUnderTest) -> None:
    browser = site.opened()
    assert "None. What fails and has retries left is not here" in browser.get("/dead").text
    refused = die(site, 30, ended.raised("ConnectionError", "to 10.0.0.7:5432 refused", ""))
    die(site, 3, ended.raised("ValueError", HOSTILE, ""))
    (crashed,) = die(site, 1, ended.crashed("killed by SIGSEGV"), "bad")
    eventually(lambda: "34 were looked at." in browser.get("/dead").text, 10)
    page = browser.get("/dead")
    first, second, quarantined = forms(page)
    assert first["q"] == (
        "state:failed,timeout type:greet reason:raised quarantined:no error:ConnectionError "
        'pattern:"to * refused"'
    )
    assert "<img" not in page.text
    assert "<script>alert" not in page.text
    assert quarantined["q"].startswith(
        "state:failed,timeout type:bad reason:crashed quarantined:yes"
    )
    assert page.text.index(crashed) > page.text.index("Quarantined")
    listed = browser.get(f"/tasks?{urlencode({'q': second['q']})}")
    assert "3 tasks" in listed.text
    asked = browser.post_all("/bulk", list(first.items()))
    assert asked.heading == "Run again: all 30 tasks"
    fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', asked.text)
    given = {name: html.unescape(value) for name, value in fields}
    blank = browser.post_all("/bulk", [*given.items(), ("reason", " ")])
    assert (blank.heading, blank.flash.split(":")[0]) == ("Dead letters", "Nothing was done")
    begun = browser.post_all("/bulk", [*given.items(), ("reason", "it is up again")])
    eventually(lambda: browser.get(f"/{begun.path}").heading == "Run again: done", 20)
    assert {site.client.view(task_id).state for task_id in refused} == {State.PENDING}
    eventually(lambda: "4 were looked at." in browser.get("/dead").text, 10)
    assert browser.get("/dead?before=x").code == 400


def test_an_act_goes_on_in_another_process_when_its_own_is_killed(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with pages(tmp_path) as first, pages(tmp_path / "second", start=False) as second:
        second.env["SUPERVISOR_STORE"] = first.url
        browser = second.start().opened()
        assert first.process is not None
        assert second.process is not None
        first.app.submit_many([{"type": "greet", "params": {}} for _ in range(4000)])
        second.process.send_signal(signal.SIGSTOP)  # so that the other one takes it
        desk = first.client.bulk
        begun = desk.begin("cancel", "type:greet", by="ann", reason="wrong month")

        def now() -> BulkAct:
            found = desk.get(begun.bulk_id)
            assert found is not None
            return found

        eventually(lambda: now().done > 0, 20)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(10)
        at_kill = now()
        assert (at_kill.ended_at, at_kill.done < 4000) == (None, True)
        second.process.send_signal(signal.SIGCONT)
        eventually(lambda: browser.get(f"/bulk/{begun.bulk_id}").heading == "Cancel: done", 40)
        done = now()
        assert (done.total, done.done, done.refused) == (4000, 4000, 0)
        assert done.holder not in (None, at_kill.holder)
        counts = first.client.reader.counts(first.client.reader.store.clock.now())
        assert counts.by_state == {**dict.fromkeys(State, 0), State.CANCELED: 4000}
        assert first.process.stdout is not None
        first.process.stdout.close()


def test_a_process_that_is_stopped_lets_go_of_what_it_holds(site: PagesUnderTest) -> None:
    site.app.submit_many([{"type": "greet", "params": {}} for _ in range(4000)])
    desk = site.client.bulk
    begun = desk.begin("cancel", "type:greet", by="ann", reason="wrong month")

    def found() -> BulkAct:
        act = desk.get(begun.bulk_id)
        assert act is not None
        return act

    eventually(lambda: found().done > 0, 20)
    assert site.stop() == 0
    left = found()
    assert (left.holder, left.held_until, left.ended_at) == (None, None, None)
    assert desk.stop(begun.bulk_id, by="bert", reason="enough")
    browser = site.start().opened()
    page = browser.get(f"/bulk/{begun.bulk_id}")
    assert page.heading == "Cancel: stopped"
    assert "stopped by bert" in page.text


def test_an_act_of_a_later_version_stops_no_other_and_is_told(site: PagesUnderTest) -> None:
    desk, ledger = site.client.bulk, Ledger(site.client.reader.store)
    now = ledger.clock.now()
    with ledger.transaction() as tx:
        later = tx.bulk.begin(BulkVerb.CANCEL, "mood:bad", by="ann", reason="b", now=now, as_of=now)
        renamed = sa.text(f"UPDATE bulk_acts SET verb = 'hold' WHERE bulk_id = '{later.bulk_id}'")
        tx.bulk._session.write(partial(Ordered, renamed, ()))
    own = desk.begin("cancel", "type:none", by="ann", reason="b")
    browser = site.opened()
    eventually(lambda: browser.get(f"/bulk/{own.bulk_id}").heading == "Cancel: done", 20)
    page = browser.get(f"/bulk/{later.bulk_id}")
    assert page.heading == "hold: of a later version"
    assert "0 counted so far" in page.text
    assert re.search(r"<td>hold</td>\s*<td>of a later version</td>", browser.get("/bulk").text)
    told = json.loads(browser.get("/api/v1/bulk").text)["acts"]
    assert [(one["verb"], one["is_known"]) for one in told] == [("cancel", True), ("hold", False)]
    stopped = browser.post(f"/bulk/{later.bulk_id}/stop", page.token(), reason="it waits")
    assert stopped.heading == "hold: stopped"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A client that has submitted five tasks, without any process of pages."""
    with closing(Client(Settings(store=f"sqlite:///{tmp_path}/alone.db"))) as made:
        made.submit([TaskSpec(type="greet")] * 5)
        yield made


def test_a_turn_is_one_step_of_each_act_with_a_rest_between(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "COUNTED_AT_ONCE", 2)
    carrier = Carrier(client)
    for _ in range(2):
        client.bulk.begin("cancel", "type:greet", by="ann", reason="b")
    assert carrier._turn()
    assert [act.counted for act in client.bulk.open()] == [2, 2]
    carrier._over.set()  # it rests no more: it looks behind each step whether that is so
    assert carrier._turn()
    assert [act.counted for act in client.bulk.open()] == [4, 2]


def test_an_act_that_fails_stops_no_other_and_is_tried_later(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = (client.bulk.begin("cancel", "", by="ann", reason=why) for why in ("bad", "good"))
    step, tried = BulkDesk.step, []

    def taken(desk: BulkDesk, act: BulkAct, holder: str) -> BulkAct | None:
        tried.append(act.reason)
        if act.bulk_id == bad.bulk_id:
            raise ValueError("a bug")
        return step(desk, act, holder)

    monkeypatch.setattr(BulkDesk, "step", taken)
    carrier = Carrier(client)
    while carrier._turn():
        pass
    assert tried == ["bad", "good", "good"]
    done = client.bulk.get(good.bulk_id)
    assert done is not None
    assert done.done == 5
    carrier._aside[bad.bulk_id] = 0.0
    carrier._turn()
    assert tried[3:] == ["bad"]
