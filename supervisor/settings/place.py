"""Where the files of a user are, and the file that an address of a store names."""

from __future__ import annotations

from pathlib import Path

from supervisor.settings.address import FILE_PREFIX, is_file

APP_DIR = "task-supervisor"


def state_dir() -> Path:
    """Return this user's state directory for the product (not created here)."""
    from platformdirs import user_state_dir  # 3 ms that a process with its own paths saves

    return Path(user_state_dir(APP_DIR))


def default_store() -> str:
    """Return the address of the store that is used when nobody names one: an absolute file."""
    return f"{FILE_PREFIX}{state_dir() / 'supervisor.db'}"


def store_file(url: str) -> Path | None:
    """Return the file of a SQLite address, None for any other."""
    return Path(url.removeprefix(FILE_PREFIX).partition("?")[0]) if is_file(url) else None
