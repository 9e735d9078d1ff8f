"""A terminal's own screen, for a page that redraws itself; what was there before comes back."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live


class OnScreen:
    """What a page that redraws itself is beside its layout: its console, and the screen."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._live.stop()
