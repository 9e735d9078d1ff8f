"""The table of settings as lines, for flags, documentation and checks.

Made from the fields of `Settings`; knows no setting by name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from supervisor.settings.kind import Kind, show
from supervisor.settings.limits import SCOPED
from supervisor.settings.table import Settings


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table, as documentation and flags need it."""

    name: str
    kind: Kind
    default: object
    default_text: str
    prose: str
    scoped: bool

    @property
    def env(self) -> str:
        """The environment variable that sets it."""
        return f"SUPERVISOR_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The command-line flag that sets it."""
        return "--" + self.name.replace("_", "-")


def table() -> tuple[Setting, ...]:
    """Return every setting, in the order the documentation shows them."""
    return tuple(
        Setting(
            name=f.name,
            kind=f.metadata["kind"],
            default=f.default,
            default_text=f.metadata["shown"] or show(f.default, f.metadata["kind"].unit),
            prose=f.metadata["prose"],
            scoped=f.name in SCOPED,
        )
        for f in fields(Settings)
        if f.metadata
    )
