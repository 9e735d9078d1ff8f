"""What no request may hold anywhere: text that no store can keep.

Invariant: a NUL or a lone surrogate in path, query or form is told before anything is asked of the
store, which would say it in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator

from flask import g, request
from flask_babel import gettext as _
from werkzeug.exceptions import BadRequest

from supervisor.model.spec import bad_text
from supervisor.web.refusals import UNCLEAN
from supervisor.words.retold import retold


def refuse_unclean() -> None:
    """Look through path and query of the present request. Raises: BadRequest."""
    for where, text in _texts():
        if bad := bad_text(text):
            g.refused = UNCLEAN
            raise BadRequest(_("%(where)s holds %(what)s.", where=where, what=retold(bad)))


def refuse_unclean_form() -> None:
    """Look through the form that came with the request. Raises: BadRequest."""
    for name, text in request.form.items(multi=True):
        if bad := bad_text(name) or bad_text(text):
            g.refused = UNCLEAN
            raise BadRequest(_("%(where)s holds %(what)s.", where=_("The form"), what=retold(bad)))


def _texts() -> Iterator[tuple[str, str]]:
    yield _("The path"), request.path
    for name, text in request.args.items(multi=True):
        yield _("The query"), name
        yield _("The query"), text
