"""One Chromium for a module; every test fails that leaves something wrong in its console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from screen import Screen, screen


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """The browser itself, for what a whole module shares."""
    with screen(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture
def browser(chromium: Screen) -> Iterator[Screen]:
    """The browser for one test."""
    yield chromium
    chromium.clear()
    assert chromium.wrong() == []
