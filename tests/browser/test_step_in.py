"""Somebody steps in, with real workers: what was asked is followed to its end on the same page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from harness import NodeUnderTest
from pages import PASSWORD, PagesUnderTest, pages
from playwright.sync_api import Page
from screen import Screen, barriers

from supervisor.model.states import State

MARK = "window.seenBefore = true"
#: A node notices, captures and kills within seconds; a busy machine takes longer.
LATE_MS = 40_000


@pytest.fixture(scope="module")
def site(node: NodeUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    """The pages of the store of a real node."""
    with pages(tmp_path_factory.mktemp("step-in"), start=False) as made:
        made.env["SUPERVISOR_STORE"] = node.url
        made.env["XDG_RUNTIME_DIR"] = node.env["XDG_RUNTIME_DIR"]
        made.start()
        words = (
            "users",
            "add",
            "anna",
            "--role",
            "operator",
            "--autopsies",
            "--password-file",
            "-",
        )
        added = made.cli(*words, given=PASSWORD)
        assert added.returncode == 0, added.stderr
        yield made


def heading(page: Page, state: State) -> None:
    page.wait_for_selector(f"h1 .state:text-is('{state}')", timeout=LATE_MS)


def test_a_hopeless_task_is_found_canceled_and_followed_until_it_is_gone(
    node: NodeUnderTest, site: PagesUnderTest, browser: Screen
) -> None:
    hopeless = node.submit("hopeless_cancel")
    node.started(hopeless)
    # All of it by keyboard.
    page = browser.page()
    page.goto(f"{site.base}tasks")
    page.wait_for_selector("input[name=name]:focus")
    page.keyboard.type("anna")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site.base}tasks")
    page.keyboard.press("/")
    page.keyboard.type("type:hopeless_cancel state:running")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/tasks\?.*hopeless"))
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{hopeless.task_id}")
    heading(page, State.RUNNING)
    assert barriers(page) == []
    page.evaluate(MARK)
    page.get_by_label("Reason").focus()
    page.keyboard.type("the month is closed")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.keyboard.press("Enter")
    page.wait_for_selector("main .flash:text('requested')")
    heading(page, State.CANCELED)
    page.wait_for_selector("#ladder :text('verified gone')")
    assert page.evaluate("window.seenBefore === true")
    assert not page.evaluate("document.body.classList.contains('stale')")
    steps = page.locator("#ladder li b").all_inner_texts()
    assert steps[:2] == ["requested", "delivered"]
    assert hopeless.history()[-1].to_state is State.CANCELED
    assert "anna" in page.locator("#ladder").inner_text()
    # the evidence that was taken before the kill is one key and one row away
    assert page.locator("#autopsies a").first.is_visible()


def test_what_failed_is_run_again_and_fails_again_on_the_same_page(
    node: NodeUnderTest, site: PagesUnderTest, browser: Screen
) -> None:
    failed = node.submit("boom", spec={"max_retries": 0})
    failed.wait(20)
    page = browser.signed_in(site, "anna")
    page.goto(f"{site.base}tasks/{failed.task_id}")
    heading(page, State.FAILED)
    page.evaluate(MARK)
    page.get_by_label("Reason").fill("the bank is back")
    page.get_by_role("button", name="Run again").click()
    page.wait_for_selector("main .flash")
    page.wait_for_selector("#attempts :text('Attempt 2')", timeout=LATE_MS)
    heading(page, State.FAILED)
    assert page.evaluate("window.seenBefore === true")
    assert failed.view().attempt == 2
    assert page.get_by_label("Reason").input_value() == ""


def test_two_people_do_not_undo_each_other_unseen(
    node: NodeUnderTest, site: PagesUnderTest, browser: Screen
) -> None:
    failed = node.submit("boom", spec={"max_retries": 0})
    failed.wait(20)
    anna = browser.signed_in(site, "anna")
    anna.goto(f"{site.base}tasks/{failed.task_id}")
    anna.keyboard.press("p")  # she sees what was
    failed_again = node.client.rerun(failed.task_id, by="olga", reason="first")
    assert failed_again[0].done
    failed.wait(20)
    anna.get_by_label("Reason").fill("second")
    anna.get_by_role("button", name="Run again").click()
    anna.wait_for_selector("main .flash.problem")
    assert failed.view().attempt == 2
    reruns = [line for line in failed.history() if line.operator in ("olga", "anna")]
    assert [line.operator for line in reruns] == ["olga"]
