"""The cookie of a session: signed with a key that all web processes of a store share.

Invariants: it is sent to this site's own path only, never readable by scripts, and only over https
where the request came that way. Without the store there is no key, and so no session.
"""

from __future__ import annotations

import hashlib

from flask import Flask, Request, g, request
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface
from itsdangerous import URLSafeTimedSerializer

from supervisor.client import Client
from supervisor.errors import StoreUnavailable
from supervisor.store import Store
from supervisor.web.secret import new_key

#: What programs ask for, who have no session; it must be there before the store is.
_WITHOUT = frozenset({"/healthz", "/readyz", "/metrics"})


class Cookie(SecureCookieSessionInterface):
    """Flask's sessions, with the store's key."""

    salt = "supervisor.web"
    digest_method = staticmethod(hashlib.sha256)

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: tuple[Store, str] | None = None

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        """Return the session of a page; what no person asks for does not ask for the store."""
        if request.path in _WITHOUT or request.path.startswith("/static/"):
            return self.session_class()
        return super().open_session(app, request)

    def get_signing_serializer(self, app: Flask) -> URLSafeTimedSerializer | None:
        """Return what signs and reads the cookie; None while the store is away."""
        try:
            app.secret_key = self._key()
        except StoreUnavailable as exc:
            g.away = exc  # the page that was asked for will say so
            return None
        return super().get_signing_serializer(app)

    def get_cookie_path(self, app: Flask) -> str:
        """Return the path below which a proxy has us: other sites may be beside it."""
        return request.script_root or super().get_cookie_path(app)

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002 (Flask's signature)
        """Say whether the cookie may only go over https."""
        return request.is_secure

    def _key(self) -> str:
        store = self._client.reader.store
        if self._known is None or self._known[0] is not store:  # another file is there now
            new = new_key()
            found = self._client.access.web_key()
            key = found or self._client.change_access(lambda access, _: access.web_key(new))
            self._known = store, key
        return self._known[1]
