"""Every page there is: with rows and without, in both themes, on a desk and on a phone.

Nobody is kept out (axe finds nothing serious), nothing is wider than the screen, and nothing stands
in the console: no breach of the policy, no error of a script.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pages import PagesUnderTest, pages
from screen import DARK, LIGHT, PHONE, Screen, barriers, overflow

from supervisor.model.access import Role
from supervisor.store.ledger.alerts import Telling
from supervisor.web.site import NAVIGATION, ROUTES

LONG = "t" * 90
ROOMS = [
    route.rule.lstrip("/")
    for room in NAVIGATION
    for route in ROUTES
    if (route.name, route.method) == (room.name, "GET")
]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("empty")) as made:
        made.add_user("anna", Role.ADMIN, autopsies=True)
        yield made


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesUnderTest]:
    with pages(tmp_path_factory.mktemp("full")) as made:
        made.add_user("anna", Role.ADMIN, autopsies=True)
        made.add_token("ci", Role.OPERATOR)
        _fill(made)
        yield made


def _fill(site: PagesUnderTest) -> None:
    params = {"a" * 300: "b" * 300}
    long = site.app.submit({"type": LONG, "params": params, "queue": "q" * 60, "priority": 2})
    for n in range(30):
        site.app.submit({"type": "transfer", "params": {"n": n}, "tags": ("month", f"no-{n}")})
    gone = site.app.submit({"type": "transfer", "params": {}})
    gone.cancel(by="olga", reason="w" * 200)
    site.add_autopsy(long.task_id)
    site.add_autopsy(gone.task_id, "evidence-2", verdict="stalled")
    site.client.pause("q" * 60, priority=2, by="olga", reason="the bank is down " * 12)
    now = datetime.now(UTC)
    told = Telling(
        fingerprint="f" * 16,
        name="QueueGrows" * 9,
        severity="page",
        labels={"queue": "q" * 90},
        annotations={"summary": "s" * 200},
        starts_at=now - timedelta(minutes=9),
        ends_at=None,
    )
    site.client.take_alerts([told])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_with_rows(full: PagesUnderTest, browser: Screen, scheme: str) -> None:
    page = browser.signed_in(full, "anna", color_scheme=scheme)
    found: list[str] = []
    for path in _paths(full):
        page.goto(full.base + path)
        # All but its colours was looked at in the light.
        found += barriers(page, *(("color-contrast",) if scheme == "dark" else ()))
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == {"dark": DARK, "light": LIGHT}[scheme]
    assert found == []


def test_without_rows(empty: PagesUnderTest, browser: Screen) -> None:
    page = browser.signed_in(empty, "anna")
    found: list[str] = []
    for path in ROOMS:
        page.goto(empty.base + path)
        found += barriers(page, but_colors=True)  # they are those of the pages with rows
        assert page.locator("main .empty").count() + page.locator("main td").count() > 0, path
    assert found == []
    page = browser.page()
    page.goto(f"{empty.base}sign-in")
    assert barriers(page) == []


def test_on_a_phone(full: PagesUnderTest, browser: Screen) -> None:
    page = browser.signed_in(full, "anna", viewport=PHONE)
    found: list[str] = []
    for path in _paths(full):
        page.goto(full.base + path)
        found += overflow(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
    assert found == []


def test_what_is_not_there_or_not_allowed(full: PagesUnderTest, browser: Screen) -> None:
    browser.expect("the server responded with a status of 4")
    page = browser.signed_in(full, "anna", viewport=PHONE)
    for path in ("nothing", "tasks/task_" + "0" * 32, "tasks?state=NONE", "autopsies/none"):
        page.goto(full.base + path)
        assert (barriers(page), overflow(page)) == ([], [])


def _paths(site: PagesUnderTest) -> list[str]:
    """Return every kind of page that there is of this site."""
    records = site.client.reader.autopsies()
    return [
        *ROOMS,
        *(f"tasks/{one.task_id}" for one in records),
        f"autopsies/{records[0].autopsy_id}",
    ]
