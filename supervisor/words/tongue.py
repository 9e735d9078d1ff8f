"""In which tongue a sentence is said: English, unless whoever shows it has set another one.

A sentence is a template with named values, which is what a catalogue is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Returns a template in the tongue of whoever reads it; the template itself where it knows none.
Translate = Callable[[str], str]

_TRANSLATE: ContextVar[Translate] = ContextVar("translate", default=str)


def say(template: str, **values: object) -> str:
    """Return a sentence: `%(name)s` in the template stands for the value of that name."""
    return _TRANSLATE.get()(template) % values


@contextmanager
def spoken(translate: Translate) -> Iterator[None]:
    """Let all that is said inside be translated."""
    token = _TRANSLATE.set(translate)
    try:
        yield
    finally:
        _TRANSLATE.reset(token)
