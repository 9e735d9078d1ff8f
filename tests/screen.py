"""A browser with a screen: Chromium, and what it finds wrong with a page of ours.

Secret kept here: how it is started, and what counts as wrong: a word in its console (a breach of
the policy is one), an error of a script, a request that failed. A test says what it provokes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from pages import PASSWORD, PagesUnderTest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
#: Papers of the two themes, as style.css has them.
DARK, LIGHT = "rgb(20, 23, 27)", "rgb(255, 255, 255)"
_RULES = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


class Screen:
    """One Chromium; each person who uses it has cookies of their own."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._wrong: list[str] = []
        self._expected: list[str] = []
        self._entered: dict[tuple[str, str], Any] = {}

    def page(self, **options: Any) -> Page:
        """Return an empty page of somebody who was never here."""
        options = {"viewport": DESK, "reduced_motion": "reduce", **options}
        context = self._browser.new_context(**options)
        context.set_default_timeout(15_000)
        self._contexts.append(context)
        context.on("page", self._watch)
        return context.new_page()

    def signed_in(self, site: PagesUnderTest, name: str, **options: Any) -> Page:
        """Return a page of a person who has signed in, in this browser once."""
        known = self._entered.get((site.base, name))
        page = self.page(**options, storage_state=known)
        if known is not None:
            page.goto(site.base)
            return page
        page.goto(f"{site.base}sign-in")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(site.base)
        self._entered[site.base, name] = page.context.storage_state()
        return page

    def expect(self, pattern: str) -> None:
        """Say what will be wrong on purpose."""
        self._expected.append(pattern)

    def wrong(self) -> list[str]:
        """Return what was wrong and nobody expected; forget everything."""
        found = [
            text for text in self._wrong if not any(re.search(one, text) for one in self._expected)
        ]
        self._wrong.clear()
        self._expected.clear()
        return found

    def clear(self) -> None:
        """Send everybody away."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()

    def _watch(self, page: Page) -> None:
        page.on("console", lambda said: self._wrong.append(f"{page.url}: {said.text}"))
        page.on("pageerror", lambda error: self._wrong.append(f"{page.url}: {error}"))
        page.on("requestfailed", self._failed)

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # by ourselves: we went on to another page
            self._wrong.append(f"{request.url}: {request.failure}")


@contextmanager
def screen(home: Path) -> Iterator[Screen]:
    """Start Chromium; it writes below `home` only."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not there")
    with sync_playwright() as playwright:
        # As root, as in a container, it has no sandbox of its own.
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=args,
            env={**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)},
        )
        made = Screen(browser)
        yield made
        made.clear()
        browser.close()


def barriers(page: Page, *rules: str, but_colors: bool = False) -> list[str]:
    """Return what keeps people from using this page, as axe sees it: serious and critical.

    With `rules` only what these find; to compare colours takes most of the time.
    """
    options = {**_RULES, "runOnly": list(rules)} if rules else _RULES
    if but_colors:
        options = {**options, "rules": {"color-contrast": {"enabled": False}}}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{page.url}: {one['id']}: {node['html'][:160]}: {node.get('failureSummary', '')[:300]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def overflow(page: Page) -> list[str]:
    """Return what makes this page wider than the screen, the innermost parts only."""
    return page.evaluate(
        """() => {
          const width = document.documentElement.clientWidth;
          if (document.documentElement.scrollWidth <= width) return [];
          const wide = [...document.querySelectorAll('body *')].filter((one) =>
            one.getBoundingClientRect().right > width + 1 && !one.closest('.wide, pre, .skip'));
          return wide.filter((one) => !wide.some((other) => one !== other && one.contains(other)))
            .map((one) => `${location.pathname}: ${one.outerHTML.slice(0, 160)}`)
            .concat(`${location.pathname} is ${document.documentElement.scrollWidth} wide`);
        }"""
    )
