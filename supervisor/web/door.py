"""Who asks: by a session that began with a password, by an API token, or by the printed link.

Secret kept here: what the cookie holds. Invariants: a session lives in the store, so that signing
out ends it everywhere; the link only opens while there are no users and nobody else can reach the
process; a password is compared even when there is no such user, so that the time tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from flask import Request
from flask.sessions import SessionMixin
from flask_babel import gettext as _

from supervisor.client import Client
from supervisor.clock import Clock
from supervisor.model.access import Person, Role, is_name
from supervisor.store.ledger.access import Access
from supervisor.web import secret
from supervisor.web.limiter import ADDRESS_MAX, Limiter, stranger
from supervisor.web.refusals import UNKNOWN, WRONG_PASSWORD, Bound, Key
from supervisor.words.retold import retold

SESSION = timedelta(hours=12)
BEARER = "bearer"
#: What the cookie's session holds of us.
KEY, LINK = "key", "link"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody was not let in, and how long to wait, if that is why."""

    why: str
    wait_s: float = 0.0


class Door:
    """Lets people in, or not. Safe to share between threads."""

    def __init__(self, client: Client, clock: Clock, link: str | None, owner: str) -> None:
        self._client = client
        self._link = link
        self._owner = Person(owner, Role.ADMIN, sees_autopsies=True)
        self._limiter = Limiter(clock)
        #: Which wrong passwords are written down one by one; what is not, `Refusals` tells.
        self.bound = Bound(clock, ADDRESS_MAX, ADDRESS_MAX)

    def takes_link(self) -> bool:
        """Say whether the printed link is the way in. Raises: StoreUnavailable."""
        return self._link is not None and not self._client.access.has_users()

    def has_users(self) -> bool:
        """Say whether a password is the way in. Raises: StoreUnavailable."""
        return self._client.access.has_users()

    def who(self, request: Request, session: SessionMixin) -> Person | None:
        """Return who asks; None when that is not known. Raises: StoreUnavailable."""
        given = request.authorization
        if given is not None:
            if given.type != BEARER or not given.token:
                return None
            return self._client.access.of_token(secret.digest(given.token), self._now())
        if KEY in session:
            return self._client.access.of_session(secret.digest(session[KEY]), self._now())
        if LINK in session and self.takes_link() and self._is_link(session[LINK]):
            return self._owner
        return None

    def open_by_link(self, given: str, session: SessionMixin) -> Refusal | None:
        """Let in whoever has the printed link. Raises: StoreUnavailable."""
        if self._link is not None and self.has_users():
            return Refusal(_("There are users now: the link lets nobody in. Sign in by name."))
        if not self._is_link(secret.digest(given)):
            return Refusal(_("This is not the token that was printed last."))
        name = self._owner.name
        self._client.change_access(
            lambda access, now: access.note_sign_in(name, "by the printed link", now)
        )
        session.clear()
        session[LINK] = secret.digest(given)
        return None

    def open_by_password(
        self, name: str, password: str, address: str, session: SessionMixin
    ) -> Refusal | None:
        """Let in whoever knows the password. Raises: StoreUnavailable."""
        wait_s = self._limiter.take(name, address)
        if wait_s:
            return Refusal(_("Too many wrong passwords."), wait_s)
        user = self._client.access.user(name) if is_name(name) else None
        is_right = secret.is_password(user.password if user else secret.NOBODY, password)
        if user is not None and is_right:
            key = secret.new_key()
            hashed = secret.digest(key)

            def begin(access: Access, now: datetime) -> bool:
                return access.begin_session(user, hashed, f"from {address}", now, now + SESSION)

            if self._client.change_access(begin):
                self._limiter.give_back(name, address)
                session.clear()
                session[KEY] = key
                return None
        # What was given as a name that nobody has may be a password: it is not written down.
        told = f"as {user.name}, from {address}" if user else f"from {address}"
        self._note_refusal(told, address)
        return Refusal(_("Name or password is wrong."))

    def has_password(self, session: SessionMixin) -> bool:
        """Say whether this session began with a password, which may be changed."""
        return KEY in session

    def change_password(
        self, person: Person, old: str, new: str, address: str, session: SessionMixin
    ) -> Refusal | None:
        """Give somebody another password; all sessions end but this one, which goes on anew.

        Raises: StoreUnavailable.
        """
        wait_s = self._limiter.take(person.name, address)
        if wait_s:
            return Refusal(_("Too many wrong passwords."), wait_s)
        user = self._client.access.user(person.name)
        if user is None or not secret.is_password(user.password, old):
            told = f"as {person.name}, who would change the password, from {address}"
            self._note_refusal(told, address)
            return Refusal(_("The old password is wrong."))
        self._limiter.give_back(person.name, address)
        if bad := secret.bad_password(new):
            return Refusal(_("The new password cannot be taken: %(why)s.", why=retold(bad)))
        key, kept = secret.new_key(), secret.hash_password(new)
        hashed, again = secret.digest(key), replace(user, password=kept)

        def change(access: Access, now: datetime) -> bool:
            return access.change_password(
                user.name, kept, user.name, now, user.password
            ) and access.begin_session(again, hashed, f"from {address}", now, now + SESSION)

        if not self._client.change_access(change):
            return Refusal(_("Somebody has changed the password meanwhile."))
        session.clear()
        session[KEY] = key
        return None

    def shut(self, person: Person, session: SessionMixin) -> None:
        """Sign somebody out. Raises: StoreUnavailable."""
        key = session.get(KEY)
        if key is not None:
            hashed = secret.digest(key)
            self._client.change_access(
                lambda access, now: access.end_session(hashed, person.name, now)
            )
        session.clear()

    def _note_refusal(self, told: str, address: str) -> None:
        if self.bound.take(Key(WRONG_PASSWORD, UNKNOWN, stranger(address))):
            self._client.change_access(lambda access, now: access.note_refusal(told, now))

    def _is_link(self, hashed: str) -> bool:
        return self._link is not None and secret.is_same(hashed, secret.digest(self._link))

    def _now(self) -> datetime:
        return self._client.reader.store.clock.now()
