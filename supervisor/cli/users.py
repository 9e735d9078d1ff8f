"""`supervisor users` and `supervisor tokens`: who may use the pages of `supervisor web`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import click

from supervisor.cli.call import Call, command, fields_of, os_user
from supervisor.cli.text import cell, columns
from supervisor.errors import Refused
from supervisor.model.access import NAME_ACCEPTED, OF_PEOPLE, Role, is_name
from supervisor.words.text import clock


def _a_name(_: click.Context, parameter: click.Parameter, value: str) -> str:
    if not is_name(value):
        raise click.BadParameter(f"it must be {NAME_ACCEPTED}", param=parameter)
    return value


_NAME = click.argument("name", metavar="NAME", callback=_a_name)
_ROLE_MEANS = "viewer: look. operator: also step in. admin: also say who may come in."
_ROLE = click.option(
    "--role",
    type=click.Choice([role.value for role in OF_PEOPLE], False),
    default=Role.VIEWER.value,
    show_default=True,
    help=_ROLE_MEANS,
)
_TOKEN_ROLE = click.option(
    "--role",
    type=click.Choice([role.value for role in Role], False),
    default=Role.VIEWER.value,
    show_default=True,
    help=f"{_ROLE_MEANS} teller: an Alertmanager, which tells of alerts and sees nothing.",
)
_SEES = click.option(
    "--autopsies", is_flag=True, help="May also see and download autopsies, whatever the role."
)
_BY = click.option("--by", help="Who does it. [default: your user name]")
_PASSWORD = click.option(
    "--password-file",
    metavar="FILE",
    help="Read the password from the first line of a file, - for stdin. [default: ask]",
)


@click.group()
def users() -> None:
    """Say who may sign in at the pages."""


@command(example="supervisor users add anna --role operator --autopsies", group=users)
@_NAME
@_ROLE
@_SEES
@_PASSWORD
@_BY
def add(
    call: Call, name: str, role: str, autopsies: bool, password_file: str | None, by: str | None
) -> None:
    """Let somebody sign in.

    The password is asked for, or read from a file; never an argument, which others could see.
    """
    from supervisor.store.record import UserRecord

    hashed = _hashed(password_file)
    by = by or os_user()
    added = call.client().change_access(
        lambda access, now: access.add_user(
            UserRecord(
                name=name,
                password=hashed,
                role=Role(role.lower()),
                sees_autopsies=autopsies,
                created_at=now,
                created_by=by,
                changed_at=now,
            )
        )
    )
    if not added:
        raise Refused(
            f"there is a user {name} already",
            remedy=f"Give another name, or another password: `supervisor users passwd {name}`.",
        )
    call.answer({"name": name, "role": role, "autopsies": autopsies}, lambda: [f"{name}: added"])


@command(name="list", example="supervisor users list --json", group=users)
def list_users(call: Call) -> None:
    """List who may sign in."""
    found = call.client().access.users()

    def lines() -> Iterator[str]:
        rows = [
            (
                cell(user.name),
                cell(user.role),
                "yes" if user.sees_autopsies else "no",
                clock(user.changed_at),
                f"{clock(user.created_at)} by {cell(user.created_by)}",
            )
            for user in found
        ]
        head = ("USER", "ROLE", "AUTOPSIES", "PASSWORD OF", "ADDED")
        yield from columns(head, rows) if rows else ["no users yet"]

    documents = [
        {name: value for name, value in fields_of(user).items() if name != "password"}
        for user in found
    ]
    call.answer({"users": documents}, lines)


@command(example="supervisor users passwd anna", group=users)
@_NAME
@_PASSWORD
@_BY
def passwd(call: Call, name: str, password_file: str | None, by: str | None) -> None:
    """Give a user another password and end the user's sessions."""
    hashed = _hashed(password_file)
    by = by or os_user()
    changed = call.client().change_access(
        lambda access, now: access.change_password(name, hashed, by, now)
    )
    _require(changed, f"no user is called {name}", "supervisor users list")
    call.answer({"name": name}, lambda: [f"{name}: password changed, sessions ended"])


@command(example="supervisor users disable anna", group=users)
@_NAME
@_BY
def disable(call: Call, name: str, by: str | None) -> None:
    """Let somebody in no more until there is a new password; sessions end at once."""
    from supervisor.web.secret import NOBODY

    by = by or os_user()
    done = call.client().change_access(
        lambda access, now: access.disable_user(name, NOBODY, by, now)
    )
    _require(done, f"no user is called {name}", "supervisor users list")
    call.answer({"name": name}, lambda: [f"{name}: disabled until `supervisor users passwd`"])


@command(example="supervisor users remove anna", group=users)
@_NAME
@_BY
def remove(call: Call, name: str, by: str | None) -> None:
    """Let somebody in no more; sessions end at once."""
    by = by or os_user()
    removed = call.client().change_access(lambda access, now: access.remove_user(name, by, now))
    _require(removed, f"no user is called {name}", "supervisor users list")
    call.answer({"name": name}, lambda: [f"{name}: removed"])


@click.group()
def tokens() -> None:
    """Make tokens with which programs use the pages."""


@command(example="supervisor tokens create grafana --role viewer --days 90", group=tokens)
@_NAME
@_TOKEN_ROLE
@_SEES
@click.option("--days", type=click.IntRange(1, 3650), help="Ends after so many. [default: never]")
@_BY
def create(
    call: Call, name: str, role: str, autopsies: bool, days: int | None, by: str | None
) -> None:
    """Make a token and print it, this once.

    A program sends it as `Authorization: Bearer TOKEN`. What it does stands in the audit trail
    under token:NAME.
    """
    from supervisor.store.record import TokenRecord
    from supervisor.web.secret import digest, new_token

    token = new_token()
    by = by or os_user()
    made = call.client().change_access(
        lambda access, now: access.add_token(
            TokenRecord(
                name=name,
                token_hash=digest(token),
                role=Role(role.lower()),
                sees_autopsies=autopsies,
                created_at=now,
                created_by=by,
                ends_at=None if days is None else now + timedelta(days=days),
            )
        )
    )
    if not made:
        raise Refused(
            f"there is a token {name} already",
            remedy=f"Give another name, or revoke it first: `supervisor tokens revoke {name}`.",
        )
    call.answer({"name": name, "role": role, "token": token}, lambda: [token])


@command(name="list", example="supervisor tokens list", group=tokens)
def list_tokens(call: Call) -> None:
    """List the tokens that were not revoked; they themselves are not kept."""
    found = call.client().access.tokens()

    def lines() -> Iterator[str]:
        rows = [
            (
                cell(token.name),
                cell(token.role),
                "yes" if token.sees_autopsies else "no",
                clock(token.ends_at),
                f"{clock(token.created_at)} by {cell(token.created_by)}",
            )
            for token in found
        ]
        head = ("TOKEN", "ROLE", "AUTOPSIES", "ENDS", "CREATED")
        yield from columns(head, rows) if rows else ["no tokens yet"]

    documents = [
        {name: value for name, value in fields_of(token).items() if name != "token_hash"}
        for token in found
    ]
    call.answer({"tokens": documents}, lines)


@command(example="supervisor tokens revoke grafana", group=tokens)
@_NAME
@_BY
def revoke(call: Call, name: str, by: str | None) -> None:
    """Let a token in no more, at once."""
    by = by or os_user()
    revoked = call.client().change_access(lambda access, now: access.revoke_token(name, by, now))
    _require(revoked, f"no token is called {name}", "supervisor tokens list")
    call.answer({"name": name}, lambda: [f"{name}: revoked"])


def _require(done: bool, problem: str, shown_by: str) -> None:
    if not done:
        raise Refused(problem, remedy=f"`{shown_by}` shows which there are.")


def _hashed(file: str | None) -> str:
    """Read a new password and return what is kept of it."""
    from supervisor.web.secret import bad_password, hash_password

    password = _asked() if file is None else _first_line(file)
    if bad := bad_password(password):
        raise Refused(f"the password cannot be taken: {bad}", remedy="Choose another one.")
    return hash_password(password)


def _asked() -> str:
    if not sys.stdin.isatty():
        raise Refused(
            "there is no terminal to ask for the password",
            remedy="Give it with --password-file FILE, or - for stdin.",
        )
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))


def _first_line(file: str) -> str:
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
        raise Refused(
            f"{file} cannot be read: {why}", remedy="Name a file with the password."
        ) from exc
    return text.split("\n", 1)[0].rstrip("\r")
