"""Who may come in: users and API tokens, for who may say so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from supervisor.model.access import OF_PEOPLE, Right, Role
from supervisor.store.ledger.access import Access
from supervisor.store.record import TokenRecord, UserRecord
from supervisor.web import secret
from supervisor.web.api.endpoint import READ, WRITE, Endpoint, Moment, Nothing, Trouble, wrong
from supervisor.web.secret import PASSWORD_MAX, PASSWORD_MIN
from supervisor.web.visit import Visit

DAYS_MOST = 3650
Password = Annotated[str, Meta(min_length=PASSWORD_MIN, max_length=PASSWORD_MAX)]
AccessName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}$(?!\n)")]


class User(msgspec.Struct, kw_only=True):
    """Somebody who may sign in; `disabled` until there is another password."""

    name: str
    role: str
    sees_autopsies: bool
    disabled: bool
    created_at: Moment
    created_by: str
    changed_at: Moment


class Users(msgspec.Struct):
    """All users, by name."""

    users: list[User]


class Token(msgspec.Struct, kw_only=True):
    """An API token, of which only the hash is kept; it has no end when `ends_at` is null."""

    name: str
    role: str
    sees_autopsies: bool
    created_at: Moment
    created_by: str
    ends_at: Moment | None


class Tokens(msgspec.Struct):
    """All tokens that were not revoked, by name."""

    tokens: list[Token]


class NewToken(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A token to make. Its role is its scope; without `days` it has no end."""

    name: AccessName
    role: Role = Role.VIEWER
    sees_autopsies: bool = False
    days: Annotated[int, Meta(ge=1, le=DAYS_MOST)] | None = None


class MadeToken(msgspec.Struct):
    """The token itself, told this once."""

    name: str
    token: str


class NewUser(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Somebody to let in."""

    name: AccessName
    password: Password
    role: Literal["viewer", "operator", "admin"] = "viewer"
    sees_autopsies: bool = False


class NewPassword(msgspec.Struct, forbid_unknown_fields=True):
    """Another password."""

    password: Password


class Done(msgspec.Struct):
    """It is done."""

    name: str


def list_users(visit: Visit, _query: Nothing, _body: None) -> Users:
    """List who may sign in."""
    return Users(
        [
            User(
                name=one.name,
                role=one.role,
                sees_autopsies=one.sees_autopsies,
                disabled=one.password == secret.NOBODY,
                created_at=one.created_at,
                created_by=one.created_by,
                changed_at=one.changed_at,
            )
            for one in visit.client.access.users()
        ]
    )


def add_user(visit: Visit, _: Nothing, body: NewUser) -> tuple[Done, int]:
    """Let somebody in, with a name and a password."""
    hashed, by = _hashed(body.password), visit.person.name

    def add(access: Access, now: datetime) -> bool:
        return access.add_user(
            UserRecord(
                name=body.name,
                password=hashed,
                role=body.role,
                sees_autopsies=body.sees_autopsies,
                created_at=now,
                created_by=by,
                changed_at=now,
            )
        )

    if not visit.client.change_access(add):
        raise Trouble(409, f"There is a user {body.name} already.")
    return Done(body.name), 201


def set_password(visit: Visit, _: Nothing, body: NewPassword, name: str) -> Done:
    """Give somebody another password; the sessions end, and who was disabled may come in again."""
    hashed, by = _hashed(body.password), visit.person.name
    return _of_user(visit, name, lambda access, now: access.change_password(name, hashed, by, now))


def disable_user(visit: Visit, _query: Nothing, _body: None, name: str) -> Done:
    """Let somebody in no more, until there is another password."""
    by = _other(visit, name)
    return _of_user(
        visit, name, lambda access, now: access.disable_user(name, secret.NOBODY, by, now)
    )


def remove_user(visit: Visit, _query: Nothing, _body: None, name: str) -> Done:
    """Forget somebody."""
    by = _other(visit, name)
    return _of_user(visit, name, lambda access, now: access.remove_user(name, by, now))


def _of_user(visit: Visit, name: str, act: Callable[[Access, datetime], bool]) -> Done:
    if not visit.client.change_access(act):
        raise Trouble(404, "No user is called this; it may have just been removed.")
    return Done(name)


def _other(visit: Visit, name: str) -> str:
    """Return who asks, who is another. Raises: Trouble."""
    if visit.person.name == name:
        raise Trouble(409, "You cannot take the way in from yourself.")
    return visit.person.name


def _hashed(password: str) -> str:
    if bad := secret.bad_password(password):
        raise wrong("password", f"cannot be taken: {bad}")
    return secret.hash_password(password)


def list_tokens(visit: Visit, _query: Nothing, _body: None) -> Tokens:
    """List API tokens; what they are is told when they are made, and never again."""
    found = visit.client.access.tokens()
    return Tokens([msgspec.convert(one, Token, from_attributes=True) for one in found])


def create_token(visit: Visit, _: Nothing, body: NewToken) -> tuple[MadeToken, int]:
    """Make an API token."""
    token, by = secret.new_token(), visit.person.name

    def add(access: Access, now: datetime) -> bool:
        return access.add_token(
            TokenRecord(
                name=body.name,
                token_hash=secret.digest(token),
                role=body.role,
                sees_autopsies=body.sees_autopsies and body.role in OF_PEOPLE,
                created_at=now,
                created_by=by,
                ends_at=None if body.days is None else now + timedelta(days=body.days),
            )
        )

    if not visit.client.change_access(add):
        raise Trouble(409, f"There is a token {body.name} already.")
    return MadeToken(body.name, token), 201


def revoke_token(visit: Visit, _query: Nothing, _body: None, name: str) -> Done:
    """Let a token in no more, at once."""
    by = visit.person.name
    if not visit.client.change_access(lambda access, now: access.revoke_token(name, by, now)):
        raise Trouble(404, "No token is called this; it may have just been revoked.")
    return Done(name)


ENDPOINTS = (
    Endpoint(method=READ, rule="/users", function=list_users, needs=Right.MANAGE, answer=Users),
    Endpoint(
        method=WRITE, rule="/users", function=add_user, needs=Right.MANAGE,
        body=NewUser, answer=Done, codes=(201,), errors=(409,),
    ),
    Endpoint(
        method=WRITE, rule="/users/<name>/password", function=set_password, needs=Right.MANAGE,
        body=NewPassword, answer=Done, errors=(404,),
    ),
    Endpoint(
        method=WRITE, rule="/users/<name>/disable", function=disable_user, needs=Right.MANAGE,
        answer=Done, errors=(404, 409),
    ),
    Endpoint(
        method="DELETE", rule="/users/<name>", function=remove_user, needs=Right.MANAGE,
        answer=Done, errors=(404, 409),
    ),
    Endpoint(method=READ, rule="/tokens", function=list_tokens, needs=Right.MANAGE, answer=Tokens),
    Endpoint(
        method=WRITE, rule="/tokens", function=create_token, needs=Right.MANAGE,
        body=NewToken, answer=MadeToken, codes=(201,), errors=(409,),
    ),
    Endpoint(
        method="DELETE", rule="/tokens/<name>", function=revoke_token, needs=Right.MANAGE,
        answer=Done, errors=(404,),
    ),
)  # fmt: skip
