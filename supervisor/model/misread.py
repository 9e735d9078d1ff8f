"""What is said of a query that cannot be read: sentences with values, in the tongue of who asks.

Invariant: every sentence stands in `SENTENCES`, so that a catalogue can have it; what somebody has
written is only ever a value in one. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from supervisor.errors import Refused

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "long": "The query has %(count)s characters.",
        "at most read": "At most %(most)s are read.",
        "terms": "The query has %(count)s terms.",
        "at most taken": "At most %(most)s are taken.",
        "follows": "Something follows a closing quote.",
        "space": 'Leave a space behind it; within quotes a quote is written \\".',
        "open": "A quote is opened here and not closed.",
        "close": 'Close it with ".',
        "silent": "`%(name)s:` says nothing here.",
        "many": "`%(name)s:` has too many values.",
        "unknown name": "There is no qualifier `%(name)s:`.",
        "near name": "Did you mean `%(near)s:`?",
        "names": "There are %(names)s. To find a text with a colon, put it into quotes.",
        "empty": "There is nothing between these quotes.",
        "leave them": "Leave them out.",
        "bad text": "The text holds %(bad)s.",
        "leave it": "Leave it out.",
        "bad value": "`%(name)s:%(value)s` holds %(bad)s.",
        "unreadable": "`%(name)s:%(value)s` cannot be read.",
        "stars": "`%(name)s:%(value)s` has more than %(most)s stars.",
        "unknown value": "`%(name)s:%(value)s` is not known.",
        "near value": "Did you mean `%(name)s:%(near)s`?",
        "takes": "It takes %(what)s, as in `%(example)s`.",
    }
)

Translate = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence by its name, with its values; those in `prose` are to be translated, too."""

    name: str
    values: Mapping[str, object] = field(default_factory=dict)
    prose: frozenset[str] = frozenset()

    def said(self, translate: Translate = str) -> str:
        """Return it in a tongue."""
        values = {
            name: translate(str(value)) if name in self.prose else value
            for name, value in self.values.items()
        }
        return translate(SENTENCES[self.name]) % values


class QueryError(Refused):
    """A query that cannot be read: `position` and `length` say where, in characters."""

    def __init__(self, position: int, length: int, what: Sentence, *remedies: Sentence) -> None:
        self.position = position
        self.length = length
        self._what = what
        self._remedies = remedies
        message, remedy = self.said()
        super().__init__(message, remedy=remedy, position=position, length=length)

    def said(self, translate: Translate = str) -> tuple[str, str]:
        """Return what is wrong and what to do about it in a tongue."""
        return (
            self._what.said(translate),
            " ".join(one.said(translate) for one in self._remedies),
        )


def sentence(name: str, /, *prose: str, **values: object) -> Sentence:
    """Make a sentence; `prose` names the values that are to be translated."""
    return Sentence(name, values, frozenset(prose))
