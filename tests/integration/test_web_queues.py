"""The page of queues: what waits where, what nobody knows, and pauses that two people see."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Start, eventually
from pages import Answer, Browser, PagesUnderTest, pages

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[2J"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("queues")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(site: PagesUnderTest) -> Browser:
    return site.opened()


def cells(text: str, table: str) -> list[list[str]]:
    """Return the rows of a table as a person reads them."""
    (found,) = re.findall(rf'aria-label="{table}"(.*?)</table>', text, re.DOTALL)
    body = found.split("<tbody>")[1]
    body = re.sub(r"<(details|svg).*?</\1>", "", body, flags=re.DOTALL)
    return [
        [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", one)).split()) for one in row.split("<td")]
        for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    ]


def rows_of(answer: Answer, queue: str, table: str = "Queues") -> list[list[str]]:
    """Return the cells of a queue's rows, without what opens each."""
    plain = [
        [re.sub(r"^[^>]*> ?", "", one) for one in row[1:]] for row in cells(answer.text, table)
    ]
    return [row for row in plain if row[0] == queue]


def seen(answer: Answer, queue: str, priority: str = "") -> str:
    """Return the time of the pause that the form of this row carries."""
    form = (
        rf'name="queue" value="{queue}">\s*<input type="hidden" name="priority" value="{priority}">'
        r'\s*<input type="hidden" name="seen" value="([^"]+)"'
    )
    return html.unescape(re.findall(form, answer.text)[0])


def shown(browser: Browser, text: str) -> Answer:
    """Return the page when it shows this: what all viewers share may be a second old."""
    return eventually(lambda: text in (page := browser.get("/queues")).text and page, 5, text)


def test_each_level_is_shown_and_linked(site: PagesUnderTest, browser: Browser) -> None:
    for priority, later in ((2, False), (2, False), (2, True), (7, False)):
        spec = {"queue": "mail", "priority": priority}
        if later:
            spec["run_after"] = "2999-01-01T00:00:00Z"
        site.app.submit({"type": "letter", "params": {}, **spec})
    site.app.submit({"type": "parcel", "params": {}, "queue": "post"})
    page = shown(browser, ">parcel</a>")
    assert page.heading == "Queues"
    found = [[*row[:3], row[4], row[5], row[7]] for row in rows_of(page, "mail")]
    assert found == [
        ["mail", "all", "3", "1", "0", "–"],
        ["mail", "7", "1", "0", "0", "–"],
        ["mail", "2", "2", "1", "0", "–"],
    ]
    assert [row[:3] for row in rows_of(page, "post")] == [["post", "all", "1"]]
    assert 'href="/tasks?queue=mail&amp;state=PENDING&amp;state=RUNNING"' in page.text
    assert "No node runs: nothing of this starts." in page.text
    assert rows_of(page, "mail", "Types with live tasks")[0][1:] == ["letter", "3", "1", "0", "no"]
    assert 'href="/queues" data-key="q"' in page.text


def test_a_queue_and_a_priority_are_paused_and_resumed(
    site: PagesUnderTest, browser: Browser
) -> None:
    site.app.submit({"type": "letter", "params": {}, "queue": "bank", "priority": 4})
    token = browser.get("/queues").token()
    told = browser.post("/queues/pause", token, queue="bank", priority="", reason="it is down")
    assert (told.heading, told.flash) == ("Queues", "Queue bank is paused.")
    whole, level = rows_of(browser.post(
        "/queues/pause", token, queue="bank", priority="4", reason="a flood"
    ), "bank")  # fmt: skip
    who = site.client.reader.every_pause()[0].by
    assert re.fullmatch(rf"paused by {who}, [\d.]+ m?s ago: it is down", whole[7])
    assert re.fullmatch(rf"paused by {who}, [\d.]+ m?s ago: a flood", level[7])
    page = browser.get("/queues")
    told = browser.post(
        "/queues/resume",
        token,
        queue="bank",
        priority="4",
        reason="dry",
        seen=seen(page, "bank", "4"),
    )
    assert told.flash == "Queue bank, priority 4 goes on."
    assert rows_of(told, "bank")[1][7] == "with its queue"
    again = browser.post("/queues/pause", token, queue="bank", priority="", reason="it is down")
    assert re.fullmatch(
        rf"Nothing was done: Queue bank is paused by {who} since .*Z: it is down", again.flash
    )
    notes = [note for note in site.notes() if note[2] and note[2].startswith("bank")]
    assert notes == [
        (who, "queue_paused", "bank: it is down"),
        (who, "queue_paused", "bank, priority 4: a flood"),
        (who, "queue_resumed", "bank, priority 4: dry"),
    ]


def test_nobody_ends_a_pause_that_they_have_not_seen(
    site: PagesUnderTest, browser: Browser
) -> None:
    site.client.pause("shop", by="anna", reason="stock is counted")
    page = shown(browser, "stock is counted")
    old = seen(page, "shop")
    site.client.resume("shop", by="anna", reason="counted")
    token = page.token()
    told = browser.post("/queues/resume", token, queue="shop", priority="", reason="go", seen=old)
    assert re.fullmatch(
        r"Nothing was done: Queue shop was resumed by anna at .*Z: counted", told.flash
    )
    site.client.pause("shop", by="ben", reason="the bank is down")
    told = browser.post("/queues/resume", token, queue="shop", priority="", reason="go", seen=old)
    assert re.fullmatch(
        r"Nothing was done: shop was paused anew by ben at .*Z: the bank is down\.", told.flash
    )
    (pause,) = site.client.reader.pauses("shop", 5)
    assert (pause.by, pause.reason) == ("ben", "the bank is down")


def test_what_is_no_queue_is_refused(site: PagesUnderTest, browser: Browser) -> None:
    token = browser.get("/queues").token()
    for wrong in (
        {"queue": ""}, {"queue": "a\nb"}, {"queue": "x" * 201}, {"priority": "10"},
        {"priority": "-1"}, {"priority": "x"},
    ):  # fmt: skip
        fields = {"queue": "mail", "priority": "", "reason": "why", **wrong}
        assert browser.post("/queues/pause", token, **fields).code == 400
    assert browser.post("/queues/resume", token, queue="q", reason="w", seen="then").code == 400
    assert browser.post("/queues/drop", token, queue="mail", reason="why").code == 404
    assert browser.post("/queues/pause", queue="mail", reason="why").code == 400
    told = browser.post("/queues/pause", token, queue="mail", priority="", reason=" ")
    assert told.flash == "Nothing was done: say why, it stands in the audit trail."
    assert not site.client.reader.pauses("mail", 5)


def test_names_and_reasons_are_text(site: PagesUnderTest, browser: Browser) -> None:
    name = HOSTILE.replace("\x1b", "")
    site.client.pause(name, by=name, reason=name)
    page = browser.post(
        "/queues/pause", browser.get("/queues").token(), queue=name, priority="", reason=name
    )
    for live in ("<script>alert", "<img src=x", "\x1b"):
        assert live not in page.text
    (row,) = rows_of(page, name)
    assert row[7].startswith(f"paused by {name}, ")


def test_a_type_that_no_node_knows_is_named(start_node: Start, tmp_path: Path) -> None:
    node = start_node()
    with pages(tmp_path, start=False) as site:
        site.env["SUPERVISOR_STORE"] = node.url
        browser = site.start().opened()
        node.submit("ok").wait(20)
        for _ in range(2):
            node.app.submit({"type": "renamed", "params": {}})
        page = shown(browser, "No node that runs knows the type renamed: 2 tasks wait.")
        assert rows_of(page, "default", "Types with live tasks") == [
            ["default", "renamed", "2", "0", "0", "no"]
        ]
        assert "No node runs" not in page.text
