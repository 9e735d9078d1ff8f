"""The pages as a browser has them: somebody comes from an alert, reads, takes the bundle home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PASSWORD, PagesUnderTest, pages
from screen import Screen

from supervisor.model.access import Role


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PagesUnderTest]:
    with pages(tmp_path) as made:
        made.add_user("anna", Role.OPERATOR, autopsies=True)
        yield made


def test_from_an_alert_to_the_bundle(site: PagesUnderTest, browser: Screen, tmp_path: Path) -> None:
    task_id = site.app.submit({"type": "transfer", "params": {}}).task_id
    record = site.add_autopsy(task_id, verdict="stalled")
    page = browser.page()
    page.goto(f"{site.base}autopsies/latest?type=transfer&verdict=stalled")
    assert page.evaluate("document.activeElement.name") == "name"
    page.wait_for_selector("input[name=name]:focus")
    page.keyboard.type("anna")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/autopsies/evidence-1")
    assert page.locator("h1").inner_text() == "deadlock.in_process"
    page.get_by_text("The report as it is read without").click()
    report = page.frame_locator("iframe.report")
    assert "deadlock.in_process" in report.locator("h1").inner_text()
    assert page.frames[1].evaluate("self.origin") == "null"
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the bundle").click()
    assert download.value.suggested_filename == "evidence-1.zip"
    download.value.save_as(tmp_path / "home.zip")
    assert (tmp_path / "home.zip").read_bytes() == Path(record.path).read_bytes()

    page.get_by_role("link", name="transfer …").click()
    page.get_by_label("Reason").fill("wrong month")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".flash")
    assert page.locator(".flash[role=status]").inner_text() == "Cancel: canceled"
    assert site.client.history(task_id)[-1].operator == "anna"

    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    page.go_back()
    page.wait_for_url("**/sign-in**")
    assert page.locator("h1").inner_text() == "Sign in"
