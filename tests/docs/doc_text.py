"""The documents as tests read them: files, fenced blocks, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"
PAGES = (README, REPOSITORY / "CHANGELOG.md", *sorted((REPOSITORY / "docs").glob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines a person types: those behind a dollar sign."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]


def blocks(page: Path, language: str) -> list[Block]:
    """Return the fenced blocks of one language, in order."""
    found = [Block(*match.groups()) for match in _FENCE.finditer(page.read_text("utf-8"))]
    return [block for block in found if block.language == language]


def prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def links(page: Path) -> list[str]:
    """Return the targets of all links outside fenced blocks."""
    return _LINK.findall(prose(page))
