"""The page of the audit trail: what it finds, who may see what of it, and its file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

import pytest
from pages import Browser, PagesUnderTest, pages

from supervisor.model.access import Role
from supervisor.web.pages.audit import PAGE

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\x1b[2J\u202ex"
LIVE = ("<script>alert", "<img src=x", "\x1b", "\u202e", "49\\x1b")
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "|calc", "%0A=1", "\uff1d1")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("audit")) as made:
        made.add_user("root", Role.ADMIN)
        made.add_user("vera")
        yield made


@pytest.fixture(scope="module")
def root(site: PagesUnderTest) -> Browser:
    browser = site.browser()
    assert browser.sign_in("root").heading == "Overview"
    return browser


@pytest.fixture(scope="module")
def canceled(site: PagesUnderTest) -> str:
    """A task that anna canceled."""
    task_id = site.app.submit({"type": "seen", "params": {}, "submitted_by": "anna"}).task_id
    site.client.cancel(task_id, by="anna", reason="wrong month")
    return task_id


def rows(browser: Browser, query: str) -> list[tuple[str, str]]:
    """Return who and what of each row, newest first."""
    answer = browser.get(f"/audit?{query}")
    assert answer.code == 200, answer.text
    body = answer.text.partition("<tbody>")[2].partition("</tbody>")[0]
    found = re.findall(r"<td>([^<]*)</td>\s*<td class=\"text\">(.*?)</td>", body, re.DOTALL)
    return [(by, " ".join(re.sub(r"<[^>]*>", " ", what).split())) for by, what in found]


def test_acts_are_found_by_who_what_task_and_time(
    site: PagesUnderTest, root: Browser, canceled: str
) -> None:
    site.client.pause("mail", by="tom", reason="bank")
    assert ("tom", "paused a queue") in rows(root, "")
    both = [("anna", "PENDING → CANCELED canceled"), ("anna", "· → PENDING submitted")]
    assert rows(root, f"task={canceled}") == rows(root, f"task={canceled[:20]}") == both
    assert rows(root, "by=anna") == both[:1]
    assert rows(root, "kind=people&by=tom") == [("tom", "paused a queue")]
    assert rows(root, "reason=queue_paused") == [("tom", "paused a queue")]
    assert rows(root, "kind=nodes") == []
    assert ("anna", both[0][1]) in rows(root, "kind=moves")
    assert rows(root, "until=2020-01-01T00:00") == rows(root, "since=2099-01-01T00:00") == []
    assert len(rows(root, "since=2020-01-01T00:00&until=2099-01-01T00:00")) >= 4
    assert "Nothing is like this." in root.get("/audit?by=nobody").text
    for wrong in ("kind=x", "before=x", "before=-1", "since=now", "until=9999-99-99", "kind=%00"):
        assert root.get(f"/audit?{wrong}").code == 400, wrong


def test_pages_follow_each_other(site: PagesUnderTest, root: Browser) -> None:
    for n in range(PAGE + 5):
        site.client.pause("paged", by="pia", reason=str(n))
        site.client.resume("paged", by="pia", reason=str(n))
    first = root.get("/audit?by=pia")
    assert len(re.findall("<td>pia</td>", first.text)) == PAGE
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first.text)
    second = root.get(older.replace("&amp;", "&"))
    assert len(re.findall("<td>pia</td>", second.text)) == PAGE
    assert "Newest" in second.text


def test_who_came_in_is_told_to_admins_alone(site: PagesUnderTest, root: Browser) -> None:
    vera = site.browser()
    vera.sign_in("vera")
    assert ("vera", "signed in") in rows(root, "kind=access")
    assert ("vera", "signed in") in rows(root, "")
    assert all("signed" not in what for _by, what in rows(vera, ""))
    assert rows(vera, "reason=signed_in") == []
    assert vera.get("/audit?kind=access").code == 400
    assert "signed_in" not in vera.get("/audit.csv").text
    assert "Who came in" not in vera.get("/audit").text
    assert site.browser().get("/audit").heading == "Sign in"


def test_the_file_has_the_same_rows_and_no_formula(site: PagesUnderTest, root: Browser) -> None:
    task_id = site.app.submit({"type": "filed", "params": {}}).task_id
    site.client.cancel(task_id, by=FORMULAS[0], reason="x")
    for formula in FORMULAS:
        site.client.pause("formulas", by="flo", reason=formula)
        site.client.resume("formulas", by=f"{formula}flo", reason="over")
    answer = root.get("/audit.csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"].startswith("attachment; filename")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    read = list(csv.reader(io.StringIO(answer.text, newline="")))
    assert read[0] == [
        "id", "at", "task_id", "attempt", "from", "to", "operator", "reason", "note",
    ]  # fmt: skip
    for row in read[1:]:
        for cell in row:
            assert not cell.lstrip(" \t\r\n").startswith(("=", "+", "-", "@", "|", "%", "\uff1d"))
    only = list(csv.reader(io.StringIO(root.get(f"/audit.csv?task={task_id}").text)))
    assert [row[6] for row in only[1:]] == ["'=1+1", "unknown"]


def test_what_people_wrote_is_text(site: PagesUnderTest, root: Browser) -> None:
    task_id = site.app.submit({"type": "wrote", "params": {}, "submitted_by": HOSTILE}).task_id
    site.client.cancel(task_id, by=HOSTILE, reason=HOSTILE)
    for path in (
        "/audit", f"/audit?task={task_id}", "/audit.csv",
        "/audit?by=%3Cscript%3Ealert(1)%3C%2Fscript%3E&task=%22onmouseover%3D1",
        "/audit?kind=%3Cscript%3Ealert(1)",
    ):  # fmt: skip
        answer = root.get(path)
        assert answer.code in (200, 400), path
        if path != "/audit.csv":
            for live in LIVE:
                assert live not in answer.text, path
