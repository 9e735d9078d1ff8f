"""What one person does in a browser beside a single task: acts on many, evidence, languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PagesUnderTest, pages
from playwright.sync_api import Page
from screen import PHONE, Screen, barriers, overflow

from supervisor.model.access import Role
from supervisor.model.states import State
from supervisor.web.site import NAVIGATION, ROUTES

MANY = 5_000
LATE_MS = 60_000
#: Three words of English one after the other.
ENGLISH = re.compile(r"\b[A-Za-z]?[a-z]+(?: [a-z]{2,}){2,}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("person")) as made:
        made.add_user("anna", Role.ADMIN, autopsies=True)
        yield made


def test_thousands_are_canceled_and_their_progress_is_watched(
    site: PagesUnderTest, browser: Screen
) -> None:
    site.app.submit_many([{"type": "import_row", "params": {"n": n}} for n in range(MANY)])
    page = browser.signed_in(site, "anna")
    page.goto(f"{site.base}tasks?q=type:import_row")
    page.get_by_label("all that this query finds").check()
    page.get_by_label("Reason").fill("wrong file")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("h1:text('all 5,000 tasks')")
    assert page.get_by_label("Reason").input_value() == "wrong file"
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("#progress")
    page.evaluate("window.seenBefore = true")
    page.wait_for_selector("#progress h1:text('done')", timeout=LATE_MS)
    assert page.evaluate("window.seenBefore === true")
    assert (
        "5,000 of 5,000 gone through: 5,000 done, 0 not" in page.locator("#progress").inner_text()
    )
    assert (barriers(page), overflow(page)) == ([], [])
    now = site.client.reader.store.clock.now()
    counts = site.client.reader.counts(now).by_state
    assert (counts[State.CANCELED], counts[State.PENDING]) == (MANY, 0)


def test_a_bundle_is_taken_home_and_opened_from_its_file(
    site: PagesUnderTest, browser: Screen, tmp_path: Path
) -> None:
    task_id = site.app.submit({"type": "transfer", "params": {}}).task_id
    site.add_autopsy(task_id, "home-1")
    page = browser.signed_in(site, "anna")
    page.goto(f"{site.base}autopsies/home-1")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the bundle").click()
    download.value.save_as(tmp_path / "home.zip")
    page.goto(f"{site.base}autopsies/open")
    page.locator("input[type=file]").set_input_files(tmp_path / "home.zip")
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector("h1:text('deadlock.in_process')")
    assert (barriers(page), overflow(page)) == ([], [])


def test_every_page_speaks_chinese_where_the_browser_does(
    site: PagesUnderTest, browser: Screen
) -> None:
    task_id = site.app.submit({"type": "transfer", "params": {}}).task_id
    site.add_autopsy(task_id, "spoken-1")
    site.client.pause("images", by="olga", reason="repair")
    browser.expect("the server responded with a status of 4")
    page = browser.signed_in(site, "anna")
    chinese = browser.page(
        locale="zh-CN", viewport=PHONE, storage_state=page.context.storage_state()
    )
    rules = {route.name: route.rule for route in ROUTES if route.method == "GET"}
    rooms = [rules[room.name] for room in NAVIGATION]
    more = [rules[name] for name in ("access", "autopsy_groups", "autopsy_ask", "bulks")]
    single = [f"/tasks/{task_id}", "/autopsies/spoken-1"]
    wrong = ["/nothing", "/tasks/task_0", "/tasks?q=sate:failed", "/autopsies?node=\N{SNOWMAN}%00"]
    for path in [*rooms, *more, *single, *wrong]:
        chinese.goto(site.base + path.lstrip("/"))
        assert chinese.evaluate("document.documentElement.lang") == "zh-Hans"
        assert overflow(chinese) == []
        assert (path, english(chinese)) == (path, [])
    chinese.context.clear_cookies()
    chinese.goto(f"{site.base}sign-in")
    chinese.get_by_label("名称").fill("anna")
    chinese.get_by_label("密码").fill("not this one")
    chinese.keyboard.press("Enter")
    chinese.wait_for_selector(".flash.problem")
    assert english(chinese) == []


def english(page: Page) -> list[str]:
    """Return what is said in English outside of code, output and evidence."""
    text = page.evaluate(
        """() => {
            const body = document.body.cloneNode(true);
            const verbatim = "code, pre, kbd, script, [lang=en]";
            for (const one of body.querySelectorAll(verbatim)) one.remove();
            const names = ["title", "aria-label", "placeholder"];
            const said = [...body.querySelectorAll("*")].flatMap(
                (one) => names.map((name) => one.getAttribute(name) || ""));
            return [body.textContent, ...said].join("\\n");
        }"""
    )
    return ENGLISH.findall(text)
