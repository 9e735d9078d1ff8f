"""The text of a statement without what it was about: literals and comments become question marks.

Secret: how PostgreSQL writes a literal. Pure: the statement keeps its shape, its names and its
placeholders; a literal that is cut off in the middle is one to the end.
"""

from __future__ import annotations

import re

_KEPT_CHARACTERS = 300
_TOKEN = re.compile(
    r"""
      (?P<literal>
          [eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)           # with escapes
        | (?:[bBxXnN]|[uU]&)?'(?:[^']|'')*(?:'|\Z)  # standard, bits, unicode
        | \$(?P<tag>[A-Za-z_]\w*)?\$.*?(?:\$(?P=tag)?\$|\Z)
      )
    | (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<name> "(?:[^"]|"")*(?:"|\Z) | \$\d+ | %\(\w+\)s | [^\W\d]\w* )
    | (?P<number> 0[xXoObB][0-9A-Fa-f_]+ | (?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
    """,
    re.VERBOSE | re.DOTALL,
)
_LISTED = re.compile(r"\?(?:\s*,\s*\?)+")
_ROWS = re.compile(r"(\((?:\?|\?, …)\))(?:\s*,\s*\((?:\?|\?, …)\))+")


def without_literals(text: str) -> str:
    """Return a statement on one line, every string and number a `?`, at most 300 characters."""
    bare = _TOKEN.sub(_replaced, text)
    bare = " ".join(bare.split())
    bare = _ROWS.sub(r"\1, …", _LISTED.sub("?, …", bare))
    return bare if len(bare) <= _KEPT_CHARACTERS else bare[: _KEPT_CHARACTERS - 1] + "…"


def _replaced(match: re.Match[str]) -> str:
    if match["comment"] is not None:
        return " "
    return match[0] if match["name"] is not None else "?"
