"""The HTML page of a report as a file of its own, for the owner alone."""

from __future__ import annotations

import os
import stat

from autopsy.bundle import Bundle
from autopsy.errors import BundleNotWritten, BundleUnreadable
from autopsy.report import as_sections, render_html


def page_of(bundle: Bundle) -> str:
    """Return the page of a bundle, made of its sections.

    The page that is kept in it is for those who unpack it: from a stranger's a browser would run
    whatever it holds. Raises BundleUnreadable when its sections cannot be shown.
    """
    try:
        return render_html(bundle.heading, as_sections(bundle.entries, bundle.sections))
    except (TypeError, ValueError, KeyError, AttributeError) as exc:
        raise BundleUnreadable(
            f"its sections are not those of a bundle ({exc})",
            remedy="Copy the bundle again from where it was captured.",
        ) from exc


def write_page(target: str, page: str) -> None:
    """Write a page, readable by its owner alone. Raises BundleNotWritten."""
    try:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                os.fchmod(fd, 0o600)  # an older file may have had another mode
            file.write(page)
    except OSError as exc:
        raise BundleNotWritten(
            f"cannot write {target}: {exc.strerror}",
            remedy="Name a file in a directory that exists, is writable and has free space.",
        ) from exc
