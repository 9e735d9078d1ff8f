"""Tasks that wait in a PostgreSQL server for what another session holds, each in its own way.

`dsn` leads to the server; every statement adds 1 to a counter that somebody else has locked.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

import psycopg

from supervisor import App

app = App()
ADD = "update counters set n = n + 1 where name = %s"
STILL: dict[str, Any] = {"interrupt": False, "timeout": 3600.0, "soft_timeout": None}
_kept: dict[str, psycopg.Connection[Any]] = {}


def _connected(dsn: str, **options: Any) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True, **options)


@app.task(**STILL)
def adds(ctx: Any, dsn: str, counter: str) -> None:
    """Wait for the row in a statement that commits by itself."""
    _connected(dsn).execute(ADD, [counter])


@app.task(**STILL)
def adds_again(ctx: Any, dsn: str, counter: str) -> None:
    """Try again on a new connection whenever the statement fails."""
    while True:
        try:
            _connected(dsn).execute(ADD, [counter])
            return
        except psycopg.Error:
            time.sleep(0.001)


@app.task(**STILL)
def adds_and_dies(ctx: Any, dsn: str, counter: str) -> None:
    """Wait for the row until the process ends by itself."""
    threading.Timer(1.0, os._exit, [3]).start()
    _connected(dsn).execute(ADD, [counter])


@app.task(**STILL)
def holds(ctx: Any, dsn: str, counter: str) -> None:
    """Hold a row in a transaction that does nothing."""
    connection = psycopg.connect(dsn)
    connection.execute(ADD, [counter])
    time.sleep(3600)


@app.task(**STILL)
def adds_through_a_child(ctx: Any, dsn: str, counter: str) -> None:
    """Let another program wait for the row."""
    program = (
        "import psycopg, sys\n"
        "psycopg.connect(sys.argv[1], autocommit=True).execute(sys.argv[3], [sys.argv[2]])\n"
    )
    subprocess.run([sys.executable, "-c", program, dsn, counter, ADD], check=False)


@app.task(**STILL)
def keeps(ctx: Any, dsn: str) -> str:
    """Open a connection for later attempts of this worker, with a name of its own."""
    _kept[dsn] = _connected(dsn, application_name="pool")
    return str(_kept[dsn].info.backend_pid)


@app.task(**STILL)
def adds_on_the_kept_one(ctx: Any, dsn: str, counter: str) -> None:
    """Wait for the row on the connection of an earlier attempt."""
    _kept[dsn].execute(ADD, [counter])


@app.task
def named(ctx: Any, dsn: str) -> list[str]:
    """Return what the server calls connections of this attempt, and of a thread of it."""
    found = []

    def ask() -> None:
        with _connected(dsn) as connection:
            row = connection.execute("show application_name").fetchone()
            found.append(row[0] if row else "")

    ask()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    child = subprocess.run(["printenv", "PGAPPNAME"], capture_output=True, text=True, check=False)
    return [*found, child.stdout.strip(), os.environ.get("PGAPPNAME", "")]
