"""DIAGNOSIS uninterruptible: a file is read whose file server no longer answers."""

from _fuse import hanging_file
from _stage import cannot, ready

try:
    ledger = hanging_file()
except OSError as exc:
    cannot(f"no FUSE here: {exc}")
with ledger.open("rb", buffering=0) as file:
    ready()
    file.read(64)
