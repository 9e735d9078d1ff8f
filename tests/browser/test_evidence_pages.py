"""Evidence in a browser: a bundle taken home and opened again, groups acted on, users added."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PagesUnderTest, pages
from playwright.sync_api import expect
from screen import PHONE, Screen, barriers, overflow

from supervisor.model.access import Role
from supervisor.model.states import State

WAIT = [
    {
        "code": "blocked.db_lock",
        "confidence": 0.9,
        "evidence": ["thread_locks: X waits for the lock `Bank._lock`, which Y holds"],
    }
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("evidence")) as made:
        made.add_user("anna", Role.ADMIN, autopsies=True)
        for n in range(3):
            task_id = made.app.submit({"type": "t" * 60, "params": {"n": n}}).task_id
            made.add_autopsy(task_id, f"a{n}", diagnosis_json=json.dumps(WAIT))
        yield made


def test_a_bundle_is_taken_home_and_opened_again(
    site: PagesUnderTest, browser: Screen, tmp_path: Path
) -> None:
    page = browser.signed_in(site, "anna", viewport=PHONE, color_scheme="dark")
    page.goto(f"{site.base}autopsies/a1")
    with page.expect_download() as taken:
        page.get_by_role("link", name="Download the bundle").click()
    file = tmp_path / "home.zip"
    taken.value.save_as(file)
    assert file.read_bytes() == (site.root / "a1.zip").read_bytes()
    page.goto(f"{site.base}autopsies")
    page.get_by_role("link", name="Open a bundle from a file").click()
    assert (barriers(page), overflow(page)) == ([], [])
    page.get_by_label("Bundle").set_input_files(file)
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("deadlock.in_process")
    assert (barriers(page), overflow(page)) == ([], [])
    stacks = page.locator("#part-stacks")
    expect(stacks.locator(".calls").first).to_be_visible()
    stacks.locator("summary").first.press("Enter")
    expect(stacks.locator(".calls").first).to_be_hidden()


def test_the_tasks_of_a_group_are_canceled_together(site: PagesUnderTest, browser: Screen) -> None:
    page = browser.signed_in(site, "anna", viewport=PHONE)
    page.goto(f"{site.base}autopsies/groups")
    assert (barriers(page), overflow(page)) == ([], [])
    page.get_by_role("link", name="blocked.db_lock").click()
    assert (barriers(page), overflow(page)) == ([], [])
    page.locator("input[name=task]").first.uncheck()
    page.get_by_label("Reason").fill("the bank is down")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".flash")).to_have_text("Cancel: 2 canceled")
    states = [one.state for one in site.client.reader.tasks().tasks]
    assert sorted(states) == [State.CANCELED, State.CANCELED, State.PENDING]


def test_a_user_and_a_token_are_made(site: PagesUnderTest, browser: Screen) -> None:
    page = browser.signed_in(site, "anna", viewport=PHONE)
    page.goto(f"{site.base}settings")
    page.get_by_role("link", name="Users and API tokens").click()
    page.get_by_text("Add a user …").click()
    form = page.locator("form[action$=users]")
    form.get_by_label("Name").fill("tom")
    form.get_by_label("Password").fill("a long enough word")
    form.get_by_role("button", name="Add").click()
    expect(page.locator(".flash")).to_have_text("tom may come in now.")
    page.get_by_text("Make a token …").click()
    form = page.locator("form[action$=tokens]")
    form.get_by_label("Name").fill("am")
    form.get_by_label("Role").select_option("teller")
    form.get_by_role("button", name="Make").click()
    expect(page.locator("section.flash pre")).to_have_text(re.compile(r"^svt_\S{40,}$"))
    page.get_by_text("Change … tom").click()
    assert (barriers(page), overflow(page)) == ([], [])
