"""One finding of `supervisor check`: a line with ok, warn or fail, and a remedy unless it is ok."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

import click

from supervisor.cli.group import EXIT_REFUSED
from supervisor.words.text import plain

OK, WARN, FAIL = "ok", "warn", "fail"
EXIT_AWAY = 69
_COLORS = {OK: "green", WARN: "yellow", FAIL: "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the check; `code` is the exit code it asks for when it failed.

    `where` is the way to it, for programs: the file first, then what in it.
    """

    about: str
    level: str
    text: str
    remedy: str = ""
    code: int = EXIT_REFUSED
    where: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """Return it for programs."""
        told = {**asdict(self), "code": self.code if self.level == FAIL else 0}
        if not self.where:
            del told["where"]
        return told


def lines(found: Iterable[Finding]) -> Iterator[str]:
    """Return findings for people."""
    for finding in found:
        mark = click.style(f"{finding.level:<4}", fg=_COLORS[finding.level])
        yield f"{mark}  {finding.about}: {plain(finding.text)}"
        if finding.remedy:
            yield f"      remedy: {plain(finding.remedy)}"
