"""DIAGNOSIS busy.native: a C function computes for ever, with the GIL released."""

from _stage import native_without_gil, ready

library = native_without_gil()


def render() -> None:
    ready()
    library.turn_for_ever()


render()
