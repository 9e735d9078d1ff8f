"""How the demo looks: a live page on a terminal, lines in a pipe, one object for programs.

Secret kept here: the wording and the layout. Pages are handed scenes and never look at the store.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from supervisor.demo import words
from supervisor.demo.cast import CAST, Part
from supervisor.demo.scene import Ending, Scene
from supervisor.demo.screen import OnScreen
from supervisor.demo.stage import Stage
from supervisor.model.states import State
from supervisor.store import AutopsyRecord

#: What happened needs this much room before what each part is to show gets any.
STORY_WIDTH = 45
GAP = 2
#: Lines of evidence for each autopsy in the summary.
DETAILS = 3
INDENT = 15
COLORS = {
    State.PENDING: "cyan",
    State.RUNNING: "bold blue",
    State.SUCCESS: "green",
    State.FAILED: "red",
    State.TIMEOUT: "red",
    State.CANCELED: "yellow",
}


class Page(AbstractContextManager["Page"]):
    """A page that shows nothing while the demo runs, and one JSON object at its end."""

    def __init__(self, stage: Stage, for_s: float | None) -> None:
        self.stage = stage
        self.for_s = for_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        return None

    def show(self, scene: Scene) -> None:
        """Show what is seen now."""

    def sum_up(self, ending: Ending) -> None:
        """Print the summary."""
        print(json.dumps(summary(ending), ensure_ascii=False))


class LinePage(Page):
    """A line for each thing that happens, for pipes and log files."""

    def __init__(self, stage: Stage, for_s: float | None) -> None:
        super().__init__(stage, for_s)
        self._console = Console(highlight=False, soft_wrap=True)
        self._said: dict[str, str] = {}
        self._taken = 0

    def show(self, scene: Scene) -> None:
        for line in self._news(scene):
            self._console.print(f"{scene.age_s:5.1f} s  ", line, sep="")

    def _news(self, scene: Scene) -> Iterator[Text]:
        if scene.metrics_url and "node" not in self._said:
            self._said["node"] = scene.metrics_url
            yield Text(f"the node is up: {scene.metrics_url}")
            yield Text(f"look in: supervisor top --store {self.stage.store}")
        if scene.pages_url and "pages" not in self._said:
            self._said["pages"] = scene.pages_url
            yield Text(f"the pages are up: {scene.pages_url}")
        for part in CAST:
            lines = scene.of_part[part.name]
            tally = words.tally(lines)
            known = self._said.get(part.name, "")
            self._said[part.name] = tally
            if tally != known and (known or set(words.states(lines)) != {State.PENDING}):
                yield Text(f"{part.name:<14} {tally}")
        for one in scene.autopsies[self._taken :]:
            name = words.part_name(scene, one)
            yield Text(f"autopsy        {name}: {words.diagnosis(one)} — {one.path}")
        self._taken = len(scene.autopsies)

    def sum_up(self, ending: Ending) -> None:
        self._console.print()
        for piece in epilogue(ending, self._console.width):
            # lines of a pipe stay whole, such as paths; what is laid out folds, or it would be cut
            self._console.print(piece, soft_wrap=None if isinstance(piece, Text) else False)


class LivePage(OnScreen, LinePage):
    """The page that redraws itself, on a screen of its own; the summary stays behind."""

    def show(self, scene: Scene) -> None:
        width, height = self._console.size
        top = list(header(self.stage, scene, self.for_s))
        room = height - len(top) - len(CAST) - 4  # heads, empty line, folder of the bundles
        details = room // max(1, len(scene.autopsies)) - 1
        rest = findings(scene, details, short=True) if details >= 0 else ()
        table = parts(scene, width, short=True)
        self._live.update(Group(*top, table, *rest), refresh=True)


def page_for(*, as_json: bool, stage: Stage, for_s: float | None) -> Page:
    """Return the page that suits whoever looks."""
    if as_json:
        return Page(stage, for_s)
    return (LivePage if sys.stdout.isatty() else LinePage)(stage, for_s)


# --- pieces of a page ----------------------------------------------------------------------------


def header(stage: Stage, scene: Scene, for_s: float | None) -> Iterator[Text]:
    """Return the lines on top."""
    until = "Ctrl-C ends it" if for_s is None else f"ends after {for_s:g} s"
    yield Text.assemble(("supervisor demo", "bold"), f"  {scene.age_s:.0f} s, {until}")
    yield _line(f"{words.totals(scene.counts)}", "")
    yield _line(f"pages    {scene.pages_url or 'they are starting …'}", "")
    yield _line(f"metrics  {scene.metrics_url or 'the node is starting …'}", "")
    yield _line(f"look in  supervisor top --store {stage.store}", "")
    yield Text()


def parts(scene: Scene, width: int, *, short: bool) -> Table:
    """Return what each part is, how it stands and what happened; if `short`, in one line each.

    Only the last column gives way, to the next line or cut; what it is to show goes first.
    """
    rows = [(Text(_title(part)), _states(scene, part.name), Text(part.shows)) for part in CAST]
    title, state, shows = (max(map(cell_len, column)) + GAP for column in _plain(rows))
    wide = width - title - state - shows >= STORY_WIDTH
    room = width - title - state - (shows if wide else 0)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("TASK", no_wrap=True, min_width=title - GAP)
    table.add_column("STATE", no_wrap=True, min_width=state - GAP)
    if wide:
        table.add_column("WHAT IT SHOWS", no_wrap=True, style="dim")
    table.add_column("WHAT HAPPENED", overflow="fold")
    for part, cells in zip(CAST, rows, strict=True):
        story = Text(words.happened(scene, scene.of_part[part.name]))
        if short:
            story.truncate(max(1, room), overflow="ellipsis")
        table.add_row(*cells[: 3 if wide else 2], story)
    return table


def _title(part: Part) -> str:
    return part.name if part.tasks == 1 else f"{part.name} x{part.tasks}"


def _plain(rows: Sequence[Sequence[Text]]) -> Iterator[list[str]]:
    heads = ("TASK", "STATE", "WHAT IT SHOWS")
    for head, column in zip(heads, zip(*rows, strict=True), strict=True):
        yield [head, *(cell.plain for cell in column)]


def _states(scene: Scene, name: str) -> Text:
    found = words.states(scene.of_part[name])
    pieces = [
        (str(state) if len(found) == 1 else f"{count} {str(state)[:4]}", COLORS[state])
        for state, count in found.items()
    ]
    return Text(" ").join(Text(text, style) for text, style in pieces)


def findings(scene: Scene, details: int, *, short: bool) -> Iterator[Text | Padding]:
    """Return what the autopsies found: a headline, some evidence, and where the bundle is."""
    if not scene.autopsies:
        return
    yield Text()
    wide = max(len("VERDICT"), *(len(one.verdict or "") for one in scene.autopsies))
    head = f"{'AUTOPSY':<13}  {'VERDICT':<{wide}}  DIAGNOSIS, from evidence taken before a kill"
    yield _line(head, "bold")
    for one in scene.autopsies:
        yield Text.assemble(
            f"{words.part_name(scene, one):<13}  ",
            f"{one.verdict or '':<{wide}}  ",
            (words.diagnosis(one), "bold magenta"),
            (f"  found in {one.ms / 1000:.1f} s", "dim"),
        )
        for text in words.details(one, details):
            line = _line(text, "dim") if short else Text(text, style="dim")
            yield Padding(line, (0, 0, 0, INDENT))
        if not short:
            yield Padding(Text(Path(one.path).name), (0, 0, 0, INDENT))
    yield Text(f"bundles  {Path(scene.autopsies[0].path).parent}", overflow="fold")


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, overflow="ellipsis", no_wrap=True)


def epilogue(ending: Ending, width: int) -> Iterator[Any]:
    """Return the summary for people."""
    scene = ending.scene
    yield parts(scene, width, short=False)
    yield from findings(scene, DETAILS, short=False)
    if scene.autopsies:
        yield Text(f"read it  autopsy show {words.most_telling(scene).path}", overflow="fold")
    yield Text()
    yield Text(f"{words.totals(scene.counts)}; {ending.duration_s:.0f} s in all")
    for surprise in words.surprises(scene):
        yield Text(f"not as designed: {surprise}", style="red")
    yield words.left_behind(ending.leftovers, in_order=ending.stopped_in_order)


def summary(ending: Ending) -> dict[str, Any]:
    """Return the summary for programs."""
    scene = ending.scene
    return {
        "submitted": sum(scene.counts.values()),
        "states": {str(state): count for state, count in scene.counts.items()},
        "autopsies": [_autopsy(scene, one) for one in scene.autopsies],
        "as_designed": not words.surprises(scene),
        "surprises": words.surprises(scene),
        "leftover_processes": len(ending.leftovers),
        "leftovers": [asdict(one) for one in ending.leftovers],
        "stopped_in_order": ending.stopped_in_order,
        "duration_s": round(ending.duration_s, 2),
    }


def _autopsy(scene: Scene, one: AutopsyRecord) -> dict[str, Any]:
    evidence: Sequence[str] = words.evidence(one)
    return {
        "task_id": one.task_id,
        "part": words.part_name(scene, one),
        "diagnosis": one.diagnosis,
        "verdict": one.verdict,
        "path": one.path,
        "status": one.status,
        "evidence": list(evidence),
    }
