"""What the caller of an autopsy allows and knows about databases."""

from __future__ import annotations

from dataclasses import dataclass

#: Addresses of databases, one a line; not an option, since anybody may read a command line.
VARIABLE = "AUTOPSY_DATABASES"


@dataclass(frozen=True, slots=True, repr=False)
class Asking:
    """Whether servers may be asked, the addresses given for it, and the attempt's own name.

    `application` is what the connections of exactly this attempt are called; empty if unknown. It
    has no repr, since the addresses hold passwords.
    """

    allowed: bool = True
    addresses: tuple[str, ...] = ()
    application: str = ""
