"""The report a person reads first, as text and as a page that stands alone.

Secret: the layout. Pure: sections in, text or HTML out; nothing here collects or decides. Both are
made of the same parts (`view`), so they never disagree. Called by `capture` and the command line.
"""

from __future__ import annotations

from collections.abc import Sequence

from autopsy.bundle import SectionEntry
from autopsy.report.html import render_html
from autopsy.report.text import render_text
from autopsy.section import Payload, Section


def as_sections(entries: Sequence[SectionEntry], payloads: dict[str, Payload]) -> list[Section]:
    """Return the sections of a bundle read back, for rendering them again."""
    return [
        Section(entry.name, entry.status, entry.reason, entry.ms, payloads[entry.name])
        for entry in entries
    ]


__all__ = ["as_sections", "render_html", "render_text"]
