"""Who may sign in: users, their sessions and API tokens, and the acts that move no task.

Invariants: passwords, keys and tokens come hashed and are kept so; every change and every sign-in
has its note in the trail, in the same transaction; who is removed or gets a new password has no
session left, and who is let in no more has no act on many that goes on. Called through
`Transaction`.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, delete, select, update

from supervisor.store.ledger.audit import UNKNOWN_OPERATOR, NoteReason, write_general_note
from supervisor.store.ledger.bulk import Bulk
from supervisor.store.record import TokenRecord, UserRecord
from supervisor.store.schema import api_tokens, store_facts, web_sessions, web_users
from supervisor.store.session import Ordered, Session, insert_into, ordered

#: The fact under which the key lies that signs the cookies of all web processes of a store.
KEY_FACT = "web_key"


class Access:
    """The verbs about who may sign in, within one open transaction."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add_user(self, user: UserRecord) -> bool:
        """Let somebody in; False when the name is taken."""
        self._session.lock([_lock_of(user.name)])
        if self._session.row(_select_user, user.name) is not None:
            return False
        at = self._session.encode(user.created_at)
        self._session.write(
            _insert_user,
            user.name, user.password, user.role, user.sees_autopsies, at, user.created_by, at,
        )  # fmt: skip
        sees = "sees autopsies" if user.sees_autopsies else "sees no autopsies"
        told = f"{user.name}, {user.role}, {sees}"
        write_general_note(
            self._session, user.created_at, NoteReason.USER_ADDED, told, user.created_by
        )
        return True

    def change_password(
        self, name: str, password: str, by: str, now: datetime, old: str | None = None
    ) -> bool:
        """Give a user another password and end the user's sessions; False when there is no such.

        With `old` (its hash) it is also False when the password is another by now.
        """
        self._session.lock([_lock_of(name)])
        if old is not None:
            row = self._session.row(_select_user, name)
            if row is None or row[0] != old:
                return False
        if self._session.write(_update_password, password, self._session.encode(now), name) == 0:
            return False
        self._session.write(_delete_sessions, name)
        write_general_note(self._session, now, NoteReason.PASSWORD_CHANGED, name, by)
        return True

    def disable_user(self, name: str, no_password: str, by: str, now: datetime) -> bool:
        """Let somebody in no more until there is another password; False when there is no such.

        `no_password` is what is kept in its place.
        """
        self._session.lock([_lock_of(name)])
        at = self._session.encode(now)
        if self._session.write(_update_password, no_password, at, name) == 0:
            return False
        self._session.write(_delete_sessions, name)
        write_general_note(self._session, now, NoteReason.USER_DISABLED, name, by)
        self._stop_acts(name, by, now)
        return True

    def remove_user(self, name: str, by: str, now: datetime) -> bool:
        """Let somebody in no more, at once; False when there is no such user."""
        self._session.lock([_lock_of(name)])
        self._session.write(_delete_sessions, name)
        if self._session.write(_delete_user, name) == 0:
            return False
        write_general_note(self._session, now, NoteReason.USER_REMOVED, name, by)
        self._stop_acts(name, by, now)
        return True

    def begin_session(
        self, user: UserRecord, key_hash: str, how: str, now: datetime, ends_at: datetime
    ) -> bool:
        """Sign a user in; False when user or password is another by now. Removes what is over."""
        self._session.lock([_lock_of(user.name)])
        row = self._session.row(_select_user, user.name)
        if row is None or row[0] != user.password:
            return False
        at = self._session.encode(now)
        self._session.write(_delete_ended, at)
        self._session.write(_insert_session, key_hash, user.name, at, self._session.encode(ends_at))
        self.note_sign_in(user.name, how, now)
        return True

    def end_session(self, key_hash: str, name: str, now: datetime) -> None:
        """Sign a user out."""
        if self._session.write(_delete_session, key_hash):
            write_general_note(self._session, now, NoteReason.SIGNED_OUT, None, name)

    def note(self, reason: NoteReason, text: str, by: str, now: datetime) -> None:
        """Note what somebody did at the pages that moves nothing."""
        write_general_note(self._session, now, reason, text, by)

    def note_sign_in(self, name: str, how: str, now: datetime) -> None:
        """Note that somebody came in."""
        write_general_note(self._session, now, NoteReason.SIGNED_IN, how, name)

    def note_refusal(self, text: str, now: datetime) -> None:
        """Note that somebody was not let in."""
        write_general_note(self._session, now, NoteReason.SIGN_IN_REFUSED, text, UNKNOWN_OPERATOR)

    def note_refused_request(self, text: str, who: str, now: datetime) -> None:
        """Note that something was asked for that nobody, or not this one, may have."""
        write_general_note(self._session, now, NoteReason.REQUEST_REFUSED, text, who)

    def add_token(self, token: TokenRecord) -> bool:
        """Write down an API token; False when its name is taken."""
        self._session.lock([_lock_of(token.name)])
        if self._session.row(_select_token, token.name) is not None:
            return False
        self._session.write(
            _insert_token,
            token.name,
            token.token_hash,
            token.role,
            token.sees_autopsies,
            self._session.encode(token.created_at),
            token.created_by,
            self._session.encode(token.ends_at),
        )
        until = "for ever" if token.ends_at is None else f"until {token.ends_at:%Y-%m-%d %H:%M}Z"
        told = f"{token.name}, {token.role}, {until}"
        write_general_note(
            self._session, token.created_at, NoteReason.TOKEN_CREATED, told, token.created_by
        )
        return True

    def revoke_token(self, name: str, by: str, now: datetime) -> bool:
        """Let a token in no more, at once; False when there is no such."""
        if self._session.write(_delete_token, name) == 0:
            return False
        write_general_note(self._session, now, NoteReason.TOKEN_REVOKED, name, by)
        self._stop_acts(f"token:{name}", by, now)
        return True

    def _stop_acts(self, operator: str, by: str, now: datetime) -> None:
        why = f"{operator} is let in no more"
        Bulk(self._session).stop_all_of(operator, by=by, why=why, now=now)

    def web_key(self, new: str) -> str:
        """Return the key of the store's web processes; it is `new` when there was none."""
        self._session.lock([KEY_FACT])
        row = self._session.row(_select_fact, KEY_FACT)
        if row is not None:
            return str(row[0])
        self._session.write(_insert_fact, KEY_FACT, new)
        return new


def _lock_of(name: str) -> str:
    return f"web:{name}"


def _select_user() -> Ordered:
    return ordered(select(web_users.c.password).where(web_users.c.name == bindparam("who")), "who")


def _insert_user() -> Ordered:
    return insert_into(web_users)


def _update_password() -> Ordered:
    statement = (
        update(web_users)
        .values(password=bindparam("hash"), changed_at=bindparam("now"))
        .where(web_users.c.name == bindparam("who"))
    )
    return ordered(statement, "hash", "now", "who")


def _delete_user() -> Ordered:
    return ordered(delete(web_users).where(web_users.c.name == bindparam("who")), "who")


def _insert_session() -> Ordered:
    return insert_into(web_sessions)


def _delete_session() -> Ordered:
    return ordered(delete(web_sessions).where(web_sessions.c.key_hash == bindparam("key")), "key")


def _delete_sessions() -> Ordered:
    return ordered(delete(web_sessions).where(web_sessions.c.user_name == bindparam("who")), "who")


def _delete_ended() -> Ordered:
    return ordered(delete(web_sessions).where(web_sessions.c.ends_at <= bindparam("now")), "now")


def _select_token() -> Ordered:
    return ordered(
        select(api_tokens.c.name).where(api_tokens.c.name == bindparam("name_")), "name_"
    )


def _insert_token() -> Ordered:
    return insert_into(api_tokens)


def _delete_token() -> Ordered:
    return ordered(delete(api_tokens).where(api_tokens.c.name == bindparam("name_")), "name_")


def _select_fact() -> Ordered:
    return ordered(
        select(store_facts.c.value).where(store_facts.c.name == bindparam("fact")), "fact"
    )


def _insert_fact() -> Ordered:
    return insert_into(store_facts)
