"""How the live demo looks: a page on a terminal that redraws itself, lines in a pipe, one object.

Secret kept here: the wording and the layout. It is handed sights and never looks at the store.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from supervisor.demo import words
from supervisor.demo.screen import OnScreen
from supervisor.demo.stage import Leftover, Stage
from supervisor.model.states import State
from supervisor.store import AutopsyRecord
from supervisor.store.view import QueueView

#: How often a pipe is told the totals.
TOTALS_EVERY_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What can be seen at one moment; `autopsies` newest first, `news`: (age, who did what)."""

    age_s: float
    counts: Mapping[State, int]
    queues: tuple[QueueView, ...]
    autopsies: tuple[AutopsyRecord, ...]
    news: tuple[tuple[float, str], ...]
    metrics_url: str | None
    pages_url: str | None


class Page(AbstractContextManager["Page"]):
    """Shows nothing while the demo runs, and one JSON object at its end."""

    def __init__(self, stage: Stage, for_s: float | None) -> None:
        self.stage = stage
        self.for_s = for_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        return None

    def show(self, sight: Sight) -> None:
        """Show what is seen now."""

    def sum_up(self, last: Sight, left: tuple[Leftover, ...], *, in_order: bool) -> None:
        """Print the summary."""
        print(json.dumps(summary(last, left, in_order=in_order), ensure_ascii=False))


class LinePage(Page):
    """A line for each thing that people do or find, for pipes and log files."""

    def __init__(self, stage: Stage, for_s: float | None) -> None:
        super().__init__(stage, for_s)
        self._console = Console(highlight=False, soft_wrap=True)
        self._said: set[str] = set()
        self._told_at = 0.0
        self._news_at = -1.0

    def show(self, sight: Sight) -> None:
        for text in self._news(sight):
            self._console.print(Text(f"{sight.age_s:5.1f} s  {text}"))

    def _news(self, sight: Sight) -> Iterator[str]:
        for text in _places(sight, self.stage):
            if text not in self._said:
                self._said.add(text)
                yield text
        for age_s, text in sight.news:
            if age_s > self._news_at:
                self._news_at = age_s
                yield text
        for one in reversed(sight.autopsies):
            if one.autopsy_id not in self._said:
                self._said.add(one.autopsy_id)
                yield f"autopsy of {one.task_id}: {words.diagnosis(one)} — {one.path}"
        if sight.age_s >= self._told_at:
            self._told_at = sight.age_s + TOTALS_EVERY_S
            yield words.totals(sight.counts)

    def sum_up(self, last: Sight, left: tuple[Leftover, ...], *, in_order: bool) -> None:
        self._console.print()
        self._console.print(Text(f"{words.totals(last.counts)}; {last.age_s:.0f} s in all"))
        self._console.print(words.left_behind(left, in_order=in_order))


class ScreenPage(OnScreen, LinePage):
    """The page that redraws itself, on a screen of its own; the summary stays behind."""

    def show(self, sight: Sight) -> None:
        until = "Ctrl-C ends it" if self.for_s is None else f"ends after {self.for_s:g} s"
        head = [
            Text.assemble(("supervisor demo --live", "bold"), f"  {sight.age_s:.0f} s, {until}"),
            _line(words.totals(sight.counts)),
            *(_line(text) for text in _places(sight, self.stage)),
            Text(),
        ]
        news = [_line(f"{age_s:5.0f} s  {text}") for age_s, text in reversed(sight.news)]
        found = [
            _line(f"autopsy  {one.verdict or ''}: {words.diagnosis(one)}")
            for one in sight.autopsies
        ]
        self._live.update(Group(*head, _queues(sight), Text(), *found, Text(), *news), refresh=True)


def page_for(*, as_json: bool, stage: Stage, for_s: float | None) -> Page:
    """Return the page that suits whoever looks."""
    if as_json:
        return Page(stage, for_s)
    return (ScreenPage if sys.stdout.isatty() else LinePage)(stage, for_s)


def summary(last: Sight, left: tuple[Leftover, ...], *, in_order: bool) -> dict[str, Any]:
    """Return the summary for programs."""
    return {
        "submitted": sum(last.counts.values()),
        "states": {str(state): count for state, count in last.counts.items()},
        "leftover_processes": len(left),
        "leftovers": [asdict(one) for one in left],
        "stopped_in_order": in_order,
        "duration_s": round(last.age_s, 2),
    }


def _places(sight: Sight, stage: Stage) -> Iterator[str]:
    if sight.metrics_url:
        yield f"the node is up: {sight.metrics_url}"
        yield f"look in: supervisor top --store {stage.store}"
    if sight.pages_url:
        yield f"the pages are up: {sight.pages_url}"


def _queues(sight: Sight) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("QUEUE", "WAITING", "LATER", "RUNNING", ""):
        table.add_column(name, justify="left" if name in ("QUEUE", "") else "right")
    for one in sight.queues:
        paused = f"paused by {one.by}: {one.reason}" if one.paused else ""
        table.add_row(one.queue, str(one.in_queue), str(one.scheduled), str(one.running), paused)
    return table


def _line(text: str) -> Text:
    return Text(text, overflow="ellipsis", no_wrap=True)
