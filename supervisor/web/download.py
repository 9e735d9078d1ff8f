"""Sending the file of a bundle, to a page and to a program alike.

Invariants: the path comes from the store, never from a request; what is sent was verified to be a
bundle, and is open before the first byte leaves, so that it cannot vanish between. Who takes it
home stands in the audit trail first. It is sent whole or not at all: of parts nobody could say who
has taken it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from flask import request, send_file
from flask_babel import gettext as _

from autopsy.bundle import read_bundle
from autopsy.errors import AutopsyError
from supervisor.store import AutopsyRecord
from supervisor.store.muster import name_of
from supervisor.web.visit import Answer, Visit


class Gone(Exception):
    """There is no bundle to send, and why."""


@contextmanager
def file_of(visit: Visit, record: AutopsyRecord) -> Iterator[BinaryIO]:
    """Open a bundle's file, which stays open when the block ends well.

    Raises: Gone, also for what the block finds wrong with it.
    """
    if not record.path:
        raise Gone(_("No evidence could be saved: the audit trail of its task says why."))
    try:
        file = Path(record.path).open("rb")  # noqa: SIM115 - it is sent after the block
        try:
            yield file
        except BaseException:
            file.close()
            raise
    except (FileNotFoundError, NotADirectoryError):
        gone = _(
            "The bundle is not on this host. It was written by %(host)s to %(path)s; old bundles "
            "are removed after autopsy_keep_days.",
            host=host_of(visit, record),
            path=record.path,
        )
        raise Gone(gone) from None
    except (AutopsyError, OSError) as exc:
        why = f"{exc} {getattr(exc, 'remedy', '')}".rstrip()
        raise Gone(
            _("The bundle %(path)s cannot be read: %(why)s", path=record.path, why=why)
        ) from exc


def sent(visit: Visit, record: AutopsyRecord) -> Answer:
    """Send a bundle. Raises: Gone."""
    with file_of(visit, record) as file:
        read_bundle(Path(record.path), file)
        file.seek(0)
        size = os.fstat(file.fileno()).st_size
        if request.method == "GET":  # HEAD takes nothing
            visit.client.note_download(record, by=visit.person.name)
    answer = send_file(
        file,
        mimetype="application/zip",
        as_attachment=True,
        download_name=f"{record.autopsy_id}.zip",
        etag=False,
        conditional=False,
    )
    answer.content_length = size
    answer.headers["Accept-Ranges"] = "none"
    del answer.headers["Cache-Control"]  # as for every page: nothing of it is kept on the way
    return answer


def host_of(visit: Visit, record: AutopsyRecord) -> str:
    """Say whose host a bundle was written on."""
    host = name_of(visit.reader.store, record.node_id)
    if host is None:
        return str(_("node %(node)s", node=record.node_id))
    return str(_("the node of host %(host)s", host=host))
