"""Opening bundles: of the store by their record, or brought as a file; for pages and API alike.

Invariants: what is opened was verified to be a bundle. A file that is brought is never put on a
disk under its name, nothing of it is kept, and that it was opened or refused stands in the audit.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from autopsy.bundle import Bundle, read_bundle
from autopsy.errors import AutopsyError
from supervisor.store import AutopsyRecord
from supervisor.store.ledger.audit import NoteReason
from supervisor.web import wording
from supervisor.web.download import file_of
from supervisor.web.visit import Visit

T = TypeVar("T")

#: Of a file that is brought: no bundle of ours is larger, packed or unpacked, but for its margin.
UPLOAD_MAX_BYTES = 10 << 20
NAME_MOST = 100


class NotShown(Exception):
    """It is no bundle that can be shown, and why."""


def opened(visit: Visit, record: AutopsyRecord) -> Bundle:
    """Open the bundle of a record. Raises: Gone when there is none to show."""
    with file_of(visit, record) as file, file:
        return read_bundle(Path(record.path), file)


def brought(visit: Visit, name: str, content: bytes, show: Callable[[Bundle], T]) -> T:
    """Return what `show` makes of a file that somebody brings. Raises: NotShown, also of `show`."""
    told, by = wording.line(name)[:NAME_MOST], visit.person.name

    def note(reason: NoteReason, text: str) -> None:
        visit.client.change_access(lambda access, now: access.note(reason, text, by, now))

    try:
        shown = show(read_bundle(Path(told), io.BytesIO(content), UPLOAD_MAX_BYTES))
    except (AutopsyError, NotShown) as exc:
        why = f"{exc} {getattr(exc, 'remedy', '')}".rstrip()
        note(NoteReason.BUNDLE_REFUSED, f"{told}: {why}")
        raise NotShown(why) from exc
    note(NoteReason.BUNDLE_OPENED, told)
    return shown
