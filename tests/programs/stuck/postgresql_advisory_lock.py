"""DIAGNOSIS blocked.db_lock: an advisory lock is wanted that a session of others has."""

import signal
from collections.abc import Callable

import psycopg
from _stage import application, beside, postgresql_dsn, ready

NIGHTLY = "select pg_advisory_lock(20261129)"


def other_node(tell: Callable[[str], None]) -> None:
    line = psycopg.connect(postgresql_dsn(), application_name="other-node", autocommit=True)
    line.execute(NIGHTLY)
    tell("has it")
    signal.pause()


def nightly() -> None:
    with psycopg.connect(postgresql_dsn(), application_name=application()) as line:
        ready()
        line.execute(NIGHTLY)


beside(other_node)
nightly()
