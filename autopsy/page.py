"""The HTML page of a report as a file of its own, for the owner alone."""

from __future__ import annotations

import os

from autopsy.bundle import Bundle
from autopsy.errors import BundleNotWritten
from autopsy.report import as_sections, render_html


def page_of(bundle: Bundle) -> str:
    """Return the page of a bundle; one that is older than pages has it made now."""
    if bundle.page:
        return bundle.page
    return render_html(bundle.heading, as_sections(bundle.entries, bundle.sections))


def write_page(target: str, page: str) -> None:
    """Write a page, readable by its owner alone. Raises BundleNotWritten."""
    try:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as exc:
        raise BundleNotWritten(
            f"cannot write {target}: {exc.strerror}",
            remedy="Name a file in a directory that exists, is writable and has free space.",
        ) from exc
