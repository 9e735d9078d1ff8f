"""What the errors of PostgreSQL and its driver mean, in words that say what a person can do.

Invariant: an error that another try may get past is a `StoreBusy`, one of the server or the link a
`StoreUnavailable`; what is none of them is a bug of ours and is left as it is. Only the PostgreSQL
store uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa

from supervisor.errors import StoreBusy, StoreUnavailable, SupervisorError


def lost_at_commit(name: str, error: BaseException) -> StoreUnavailable:
    """Say that a link was lost when its transaction may have been written, or not."""
    return StoreUnavailable(
        f"the store {name} was lost while it committed: what was sent may have been written",
        remedy="Look before you repeat it; a task_id or a dedup_key makes a repeat safe.",
        code=getattr(error, "sqlstate", None) or "",
        unknown=True,
    )


DENIED = "42501"
_BUSY = {
    "40001": "had to begin anew",
    "40P01": "had to give way to another transaction",
    "23505": "got the same key from another transaction",
}
_PLAIN = {
    "57P01": ("is being restarted", "Nothing: it is tried again."),
    "57P02": ("has crashed and restarts", "Nothing: it is tried again."),
    "57P03": ("is starting or stopping", "Nothing: it is tried again."),
    # It has waited its time: again at once it would only keep its turn from others, a lease's too.
    "55P03": ("is locked by another transaction", "End that one: pg_blocking_pids() names it."),
    "57014": ("took longer than the statement time-out", "See what it does: pg_stat_activity."),
    "25P03": ("ended a transaction that stood still", "Nothing: it is tried again."),
    "25006": ("is read-only", "Name the primary: after a failover the address may be a replica's."),
    "53300": ("has no connection left", "Raise max_connections, or put a pooler before it."),
    "53100": ("cannot grow: the disk is full", "Free space on its file system."),
    "53200": ("is out of memory", "See its log."),
    DENIED: (
        "denies its user what is needed",
        "Let the user own the database (`ALTER DATABASE … OWNER TO …`) and the tables in it.",
    ),
    "42P01": ("has other tables than this version writes", "Run `supervisor db upgrade`."),
    "42703": ("has other tables than this version writes", "Run `supervisor db upgrade`."),
}
_REFUSED = (
    (
        "does not exist",
        "Create it: `createdb --owner USER NAME`; and check user and database in the URL.",
    ),
    ("authentication failed", "Check user and password."),
    ("too many clients", "Raise max_connections, or put a pooler before it."),
    ("connection slots are reserved", "Raise max_connections, or put a pooler before it."),
    ("support SSL", "Turn its TLS on, or leave sslmode out of the URL."),
    ("no password supplied", "Give the password in PGPASSWORD or ~/.pgpass."),
    ("pg_hba.conf", "Let the server's pg_hba.conf admit this host, user and database."),
)


@contextmanager
def plain_errors(name: str) -> Iterator[None]:
    """Turn the driver's errors into StoreUnavailable that says what a person can do.

    What is none of them is a bug of ours and is left as it is.
    """
    try:
        yield
    except SupervisorError:
        raise
    except (psycopg.Error, sa.exc.DBAPIError) as error:
        cause: Any = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        code = getattr(cause, "sqlstate", None) or ""
        words = " ".join(str(cause).split())
        if code in _BUSY:
            raise StoreBusy(
                f"the store {name} {_BUSY[code]}: {words}",
                remedy="Try again; pg_stat_activity and pg_locks name who is in the way.",
                code=code,
            ) from error
        if code not in _PLAIN and not _is_link(cause, code):
            raise
        what, remedy = _PLAIN.get(code) or (f"does not answer: {words}", _remedy(words))
        if code == DENIED and cause.diag.message_primary:
            what += f": {cause.diag.message_primary}"
        raise StoreUnavailable(
            f"the store {name} {what}", remedy=remedy, path=name, code=code
        ) from error


def _is_link(cause: Any, code: str) -> bool:
    return isinstance(cause, psycopg.OperationalError) and (
        not code or code[:2] in ("08", "28", "3D")
    )


def _remedy(words: str) -> str:
    found = (remedy for mark, remedy in _REFUSED if mark in words)
    return next(found, "Check that the server runs and can be reached from this host.")
