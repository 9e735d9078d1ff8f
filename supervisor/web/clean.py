"""What no request may hold anywhere: text that no store can keep.

Invariant: a NUL or a lone surrogate in path, query or form is told before anything is asked of the
store, which would say it in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator

from flask import g, request
from werkzeug.exceptions import BadRequest

from supervisor.model.spec import bad_text
from supervisor.web.refusals import UNCLEAN


def refuse_unclean() -> None:
    """Look through path and query of the present request. Raises: BadRequest."""
    for where, text in _texts():
        if bad := bad_text(text):
            g.refused = UNCLEAN
            raise BadRequest(f"{where} holds {bad}.")


def refuse_unclean_form() -> None:
    """Look through the form that came with the request. Raises: BadRequest."""
    for name, text in request.form.items(multi=True):
        if bad := bad_text(name) or bad_text(text):
            g.refused = UNCLEAN
            raise BadRequest(f"The form holds {bad}.")


def _texts() -> Iterator[tuple[str, str]]:
    yield "The path", request.path
    for name, text in request.args.items(multi=True):
        yield "The query", name
        yield "The query", text
