"""The pages as a browser has them: somebody comes from an alert, reads, takes the bundle home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PASSWORD, PagesUnderTest, pages
from playwright.sync_api import Page, Request, sync_playwright

from supervisor.model.access import Role

CHROMIUM = Path("/usr/bin/chromium")
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PagesUnderTest]:
    with pages(tmp_path) as made:
        made.add_user("anna", Role.OPERATOR, autopsies=True)
        yield made


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page of a browser that fails the test when anything is wrong with one of ours."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not there")
    with sync_playwright() as playwright:
        # As root, as in a container, it has no sandbox of its own.
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=args,
            env={**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        )
        made = browser.new_page(viewport=DESK)
        wrong: list[str] = []
        made.on("console", lambda message: wrong.append(f"{made.url}: {message.text}"))
        made.on("pageerror", lambda error: wrong.append(f"{made.url}: {error}"))

        def failed(request: Request) -> None:
            if request.failure != "net::ERR_ABORTED":  # by ourselves: we went on to another page
                wrong.append(f"{request.url}: {request.failure}")

        made.on("requestfailed", failed)
        yield made
        browser.close()
        assert wrong == []


def test_from_an_alert_to_the_bundle(site: PagesUnderTest, page: Page, tmp_path: Path) -> None:
    task_id = site.app.submit({"type": "transfer", "params": {}}).task_id
    record = site.add_autopsy(task_id, verdict="stalled")
    page.goto(f"{site.base}autopsies/latest?type=transfer&verdict=stalled")
    assert page.evaluate("document.activeElement.name") == "name"
    page.keyboard.type("anna")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/autopsies/evidence-1")
    assert page.locator("h1").inner_text() == "deadlock.in_process"
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
    assert page.get_by_role("status").inner_text() == "Cancel: canceled"
    assert site.client.history(task_id)[-1].operator == "anna"

    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    page.go_back()
    assert page.locator("h1").inner_text() == "Sign in"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_follows_the_system(
    site: PagesUnderTest, page: Page, scheme: str
) -> None:
    task_id = site.app.submit({"type": "t" * 90, "params": {"a" * 300: "b" * 300}}).task_id
    site.add_autopsy(task_id)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(site.base)
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(site.base)
    dark = "rgb(20, 23, 27)"
    for path in ("", "tasks", f"tasks/{task_id}", "autopsies", "autopsies/evidence-1"):
        page.goto(f"{site.base}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == dark) is (scheme == "dark")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
