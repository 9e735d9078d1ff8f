"""Who may do what on the pages: roles, the rights that come with them, and what a name may be.

Invariant: to see evidence is a right of its own, which no role brings: a bundle shows what a task
held in memory, a list of tasks does not. Pure; the store keeps who has which role, the web asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Right(StrEnum):
    """What a page or an act needs."""

    TASKS = "see tasks"
    AUTOPSIES = "see autopsies"
    ACT = "step in"
    SUBMIT = "submit tasks"
    MANAGE = "say who may come in"
    TELL = "tell of alerts"


class Role(StrEnum):
    """What somebody is here for; of people each may do what the one before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    SUBMITTER = "submitter"  # a program: it submits, and sees what became of it
    TELLER = "teller"  # an Alertmanager: it tells, and sees nothing


#: The roles that people have; the others are of tokens alone.
OF_PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)

_RIGHTS: Mapping[Role, frozenset[Right]] = MappingProxyType(
    {
        Role.VIEWER: frozenset({Right.TASKS}),
        Role.OPERATOR: frozenset({Right.TASKS, Right.ACT, Right.SUBMIT}),
        Role.ADMIN: frozenset(set(Right) - {Right.AUTOPSIES}),
        Role.SUBMITTER: frozenset({Right.TASKS, Right.SUBMIT}),
        Role.TELLER: frozenset({Right.TELL}),
    }
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}\Z")
#: What `is_name` accepts, for people.
NAME_ACCEPTED = "1 to 64 letters, digits and _ . @ + -, beginning with a letter, a digit or _"


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks: the name stands in the audit trail."""

    name: str
    role: Role
    sees_autopsies: bool

    def may(self, right: Right) -> bool:
        """Say whether this right comes with the role, or was given."""
        if right is Right.AUTOPSIES:
            return self.sees_autopsies and self.role in OF_PEOPLE
        return right in _RIGHTS[self.role]


def is_name(text: str) -> bool:
    """Say whether somebody or something may be called this."""
    return _NAME.match(text) is not None
