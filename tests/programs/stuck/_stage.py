"""What the stuck programs of this directory share; not one of them.

A program tells its observer that it is stuck (or about to be) through the file that STUCK_READY
names: `READY <pid>`, or `CANNOT <why>` where the machine lacks what it needs.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
EX_CANNOT = 77
LONG_S = 1e6
_NATIVE = Path(__file__).with_name("_native.c")


def ready() -> None:
    """Tell that this process is the one to examine, and stuck from now on."""
    _tell(f"READY {os.getpid()}")


def cannot(why: str) -> NoReturn:
    """Tell that this machine cannot run the program, and leave."""
    _tell(f"CANNOT {why}")
    sys.exit(EX_CANNOT)


def outlive_parent() -> None:
    """Take that back: for a child that has something to put right when its parent has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def task_id() -> str:
    """Return the id that connections to servers are named after."""
    return os.environ.get("STUCK_TASK_ID", "task_of_nobody")


def application() -> str:
    """Return how a worker names its connections."""
    return f"worker/{task_id()}"


def postgresql_dsn() -> str:
    """Return where the PostgreSQL is that the program may use."""
    return os.environ.get("STUCK_PG_DSN") or cannot("STUCK_PG_DSN names no PostgreSQL")


def redis_port() -> int:
    """Return the port of the Redis that the program may use."""
    return int(os.environ.get("STUCK_REDIS_PORT") or cannot("STUCK_REDIS_PORT names no Redis"))


def die_with_parent() -> None:
    """Be killed when the parent ends: nothing outlives a program."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def beside(act: Callable[[Callable[[str], None]], None]) -> str:
    """Run `act` in a child process until the program ends; return the first line that it tells.

    To be called while the program has one thread.
    """
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(told)
        die_with_parent()
        act(lambda line: _tell_through(tell, line))
        os._exit(0)
    os.close(tell)
    with open(told) as answer:
        return answer.readline().strip()


def temporary(name: str) -> Path:
    """Return a path of this process's own below the directory for temporary files."""
    return Path(tempfile.gettempdir()) / f"{os.getpid()}-{name}"


def native() -> Path:
    """Build the library of misbehaving C functions and return its path."""
    compiler = shutil.which("gcc") or shutil.which("cc") or cannot("there is no C compiler")
    built = temporary("native.so")
    subprocess.run([compiler, "-g", "-O1", "-shared", "-fPIC", _NATIVE, "-o", built], check=True)
    return built


def native_with_gil() -> ctypes.PyDLL:
    """Return that library, called with the GIL held (an extension that never lets it go)."""
    return ctypes.PyDLL(str(native()))


def native_without_gil() -> ctypes.CDLL:
    """Return that library, called with the GIL released."""
    return ctypes.CDLL(str(native()))


def _tell_through(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())
    os.close(pipe)


def _tell(line: str) -> None:
    path = os.environ.get("STUCK_READY")
    where = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if path else 2
    os.write(where, f"{line}\n".encode())
    if path:
        os.close(where)
