"""DIAGNOSIS busy.native_gil: one built-in call adds numbers for weeks and never lets the GIL go."""

from _stage import ready


def checksum() -> int:
    return sum(range(10**16))


ready()
checksum()
