"""What a page does by itself: it refreshes, and never shows old as new; and it has keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from harness import eventually
from pages import PagesUnderTest, pages
from playwright.sync_api import Page, Route
from screen import Screen, barriers, overflow

from supervisor.model.access import Role
from supervisor.web.site import NAVIGATION

ROOM = "queues"
#: Longer than any part of that page waits for its next refresh.
LATER_MS = 20_000
MARK = "window.seenBefore = true"
HIDE = """
    Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});
    document.dispatchEvent(new Event('visibilitychange'));
"""
SHOW = HIDE.replace("=> true", "=> false")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("refreshing")) as made:
        made.add_user("anna", Role.OPERATOR)
        submit(made, "first")
        yield made


@pytest.fixture
def page(site: PagesUnderTest, browser: Screen) -> Page:
    """The page of queues, with a clock that the test moves on."""
    made = browser.signed_in(site, "anna")
    made.clock.install()
    made.goto(site.base + ROOM)
    made.evaluate(MARK)
    return made


def submit(site: PagesUnderTest, queue: str) -> None:
    site.app.submit({"type": "transfer", "params": {}, "queue": queue})


def told(page: Page) -> str:
    return page.locator("#freshness .told").inner_text()


def is_stale(page: Page) -> bool:
    return bool(page.evaluate("document.body.classList.contains('stale')"))


def ageless(text: str) -> str:
    """Return rows without how long ago things were: an answer may have been on its way."""
    return re.sub(r"\b[\d.]+ (?:ms|s|m \d\d s) ago", "ago", text)


def rows(page: Page) -> str:
    return page.locator("#queues").inner_text()


def is_same(page: Page) -> bool:
    return bool(page.evaluate("window.seenBefore === true"))


def test_it_shows_the_new_truth_without_being_loaded_again(
    site: PagesUnderTest, page: Page
) -> None:
    assert told(page).startswith("Refreshed ")
    submit(site, "came-later")
    assert "came-later" not in rows(page)
    page.clock.run_for(LATER_MS)
    page.wait_for_selector("#queues :text('came-later')")
    page.keyboard.press("r")  # what was asked for before is as old as the asking
    page.wait_for_selector("#freshness .told:text-matches('^Refreshed 0 s ago$')")
    page.clock.run_for(1000)
    assert re.fullmatch(r"Refreshed \d s ago", told(page))
    assert (is_same(page), is_stale(page)) == (True, False)


def test_a_pause_is_remembered_and_old_is_not_shown_as_new(
    site: PagesUnderTest, page: Page
) -> None:
    page.keyboard.press("p")
    submit(site, "while-paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(3 * LATER_MS)
    assert re.fullmatch(r"From \d\d s ago: paused", told(page))
    assert (asked, is_stale(page)) == ([], True)
    assert page.locator("#freshness [role=status]").inner_text() == "paused"
    page.reload()
    assert "paused" in told(page)
    assert not is_stale(page)
    page.get_by_role("button", name="Go on").click()
    page.wait_for_selector("#freshness .told:text('Refreshed')")
    submit(site, "after-it")
    page.clock.run_for(LATER_MS)
    page.wait_for_selector("#queues :text('after-it')")


def test_a_clock_that_is_set_back_makes_nothing_young(site: PagesUnderTest, page: Page) -> None:
    now_s = page.evaluate("Date.now()") / 1000
    page.keyboard.press("p")
    page.clock.run_for(3 * LATER_MS)
    page.clock.set_system_time(now_s - 3600)
    page.clock.run_for(1000)
    assert re.fullmatch(r"From 6\d s ago: paused", told(page))
    page.keyboard.press("p")
    page.wait_for_selector("#freshness .told:text('Refreshed')")
    submit(site, "after-the-change")
    page.clock.set_system_time(now_s - 7200)
    page.clock.run_for(LATER_MS)
    page.wait_for_selector("#queues :text('after-the-change')")


def test_an_answer_is_as_old_as_its_question(page: Page) -> None:
    def late(route: Route) -> None:
        answer = route.fetch()
        page.clock.run_for(7000)
        route.fulfill(response=answer)

    page.route("**/queues", late)
    page.keyboard.press("r")
    page.wait_for_selector("#freshness .told:text-matches('^Refreshed [7-9] s ago$')")


def test_nothing_is_asked_for_while_nobody_looks(site: PagesUnderTest, page: Page) -> None:
    page.evaluate(HIDE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(3 * LATER_MS)
    assert asked == []
    submit(site, "in-the-dark")
    page.evaluate(SHOW)
    page.wait_for_selector("#queues :text('in-the-dark')")


def test_a_site_that_does_not_answer_is_told_and_comes_back(
    site: PagesUnderTest, page: Page, browser: Screen
) -> None:
    browser.expect("net::ERR_INTERNET_DISCONNECTED|htmx:|: undefined$")
    page.context.set_offline(True)
    page.keyboard.press("r")
    page.wait_for_selector("body.stale")
    assert re.fullmatch(r"From \d+ s ago: the site cannot be reached", told(page))
    page.clock.run_for(LATER_MS)
    assert is_stale(page)
    page.context.set_offline(False)
    page.clock.run_for(2 * LATER_MS)
    page.wait_for_selector("body:not(.stale)")
    assert told(page).startswith("Refreshed ")
    assert is_same(page)


def test_an_act_that_got_no_answer_is_not_told_as_done(
    site: PagesUnderTest, page: Page, browser: Screen
) -> None:
    browser.expect("net::ERR_INTERNET_DISCONNECTED|htmx:|: undefined$")
    submit(site, "unsure")
    page.reload()
    place = page.locator("#queues tr", has_text="unsure").locator("details").first
    place.locator("summary").click()
    place.locator("input[name=reason]").fill("the bank is down")
    page.context.set_offline(True)
    page.keyboard.press("Enter")
    page.wait_for_selector("main [role=alert]:text('it is not known whether')")
    assert place.locator("input[name=reason]").input_value() == "the bank is down"
    page.context.set_offline(False)
    page.keyboard.press("Enter")
    page.wait_for_selector("main .flash[role=status]:text('unsure')")
    assert page.locator("main [role=alert]").count() == 0
    assert [one.queue for one in site.client.reader.every_pause()] == ["unsure"]


def test_an_act_that_met_an_error_of_the_site_leaves_the_page_as_it_was(
    site: PagesUnderTest, page: Page, browser: Screen
) -> None:
    browser.expect("the server responded with a status of 503")
    submit(site, "away")
    page.reload()
    away = "<main id=main><h1>The store is away</h1></main>"
    page.route("**/queues/pause", lambda route: route.fulfill(status=503, body=away))
    place = page.locator("#queues tr", has_text="away").locator("details").first
    place.locator("summary").click()
    place.locator("input[name=reason]").fill("the bank is down")
    page.keyboard.press("Enter")
    page.wait_for_selector("main [role=alert]:text('it is not known whether')")
    assert place.locator("input[name=reason]").input_value() == "the bank is down"
    assert page.locator("h1").inner_text() == "Queues"


def test_an_error_or_another_page_replaces_nothing(page: Page, browser: Screen) -> None:
    browser.expect("the server responded with a status of (500|404)")
    before = ageless(rows(page))
    page.route("**/queues", lambda route: route.fulfill(status=500, body="<p>broken</p>"))
    page.keyboard.press("r")
    page.wait_for_selector("body.stale")
    assert told(page).endswith("the site answers 500")
    assert ageless(rows(page)) == before
    page.unroute("**/queues")
    page.route("**/queues", lambda route: route.fulfill(status=404, body="<p>gone</p>"))
    page.keyboard.press("r")
    page.wait_for_selector("#freshness .told:text('it is not here any more, load the page again')")
    page.unroute("**/queues")

    def without_parts(route: Route) -> None:
        route.fulfill(status=200, content_type="text/html", body="<main>other</main>")

    page.route("**/queues", without_parts)
    page.keyboard.press("r")
    page.wait_for_selector("#freshness .told:text('other parts')")
    assert ageless(rows(page)) == before


def test_who_was_signed_out_meanwhile_is_asked_to_sign_in(site: PagesUnderTest, page: Page) -> None:
    page.context.clear_cookies()
    page.keyboard.press("r")
    page.wait_for_url("**/sign-in**")


def test_what_somebody_writes_and_opens_stays(site: PagesUnderTest, page: Page) -> None:
    submit(site, "pausable")
    page.reload()
    place = page.locator("#queues tr", has_text="pausable").locator("details").first
    place.locator("summary").click()
    field = place.locator("input[name=reason]")
    field.fill("the bank is do")
    submit(site, "one-more")
    page.clock.run_for(LATER_MS)
    page.wait_for_selector("#queues :text('one-more')")
    assert field.is_visible()
    assert field.input_value() == "the bank is do"
    assert page.evaluate("document.activeElement.name") == "reason"


def test_everything_has_a_key(site: PagesUnderTest, browser: Screen) -> None:
    page = browser.signed_in(site, "anna")
    for room in NAVIGATION:
        if room.needs not in ("see tasks", "step in"):
            continue
        page.keyboard.press("g")
        page.keyboard.press(room.key)
        page.wait_for_selector(f"nav a[aria-current]:text-is('{room.label}')")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url(f"{site.base}tasks")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.tagName") == "INPUT"
    page.keyboard.type("jk?")
    assert not page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.get_by_role("heading", name="Keys").is_visible()
    assert listed(page) == ["/", "j k", "Enter", "x", "r", "p", "?", "Esc"]
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.href")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.href") != first
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.href") == first
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks/task_*")


def test_only_keys_that_do_something_here_are_listed(site: PagesUnderTest, browser: Screen) -> None:
    page = browser.signed_in(site, "anna")
    page.goto(f"{site.base}tasks?q=type:nothing_like_this")
    page.keyboard.press("?")
    assert listed(page) == ["/", "r", "p", "?", "Esc"]
    page.get_by_role("button", name="Close").press("Enter")
    page.goto(f"{site.base}alerts")
    page.get_by_role("button", name="Keys").click()
    assert listed(page) == ["/", "r", "p", "?", "Esc"]


def listed(page: Page) -> list[str]:
    """Return the keys that the list shows, but those of the rooms."""
    told = [one.inner_text().strip() for one in page.locator("#keys dt:visible").all()]
    return [one for one in told if not one.startswith("g ")]


def test_keys_can_be_switched_off(site: PagesUnderTest, browser: Screen) -> None:
    page = browser.signed_in(site, "anna")
    page.keyboard.press("?")
    page.get_by_label("Keys are on").uncheck()
    page.get_by_role("button", name="Close").click()
    page.goto(site.base + ROOM)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.keyboard.press("p")
    eventually(lambda: told(page).startswith("Refreshed "))
    assert page.url == site.base + ROOM
    page.keyboard.press("?")
    page.get_by_label("Keys are on").check()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url(f"{site.base}tasks")


def test_a_page_without_a_store_is_there_again_by_itself(
    site: PagesUnderTest, browser: Screen
) -> None:
    browser.expect("the server responded with a status of 503")
    page = browser.signed_in(site, "anna")
    page.clock.install()
    away = site.store_path.with_suffix(".away")
    site.store_path.rename(away)
    try:
        page.goto(site.base + ROOM)
        assert page.locator("h1").inner_text() == "The store is away 503"
        assert (barriers(page), overflow(page)) == ([], [])
        page.clock.run_for(LATER_MS)
        assert page.locator("h1").inner_text() == "The store is away 503"
    finally:
        away.rename(site.store_path)
    page.clock.run_for(LATER_MS)
    page.wait_for_selector("#queues")


def test_an_error_keeps_the_way_on(site: PagesUnderTest, browser: Screen) -> None:
    browser.expect("the server responded with a status of 403")
    page = browser.signed_in(site, "anna")
    page.goto(f"{site.base}autopsies")
    assert page.locator("h1").inner_text() == "Not allowed 403"
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url(f"{site.base}tasks")
