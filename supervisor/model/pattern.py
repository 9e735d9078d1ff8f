"""What errors have in common: a text without what differs from one time to the next.

Secret kept here: what differs (numbers, ids, addresses, what stands in quotes). Invariant: the
pattern of a text stands for that text, in the query language, so a group can be asked for. Pure.
"""

from __future__ import annotations

import re

from supervisor.model.query import STARS_MAX, plain_pattern

#: Characters of a text that its pattern is made of; a star stands for the rest.
TEXT_MAX = 160
_VARIES = re.compile(
    r"""
    '[^'\n]*' | "[^"\n]*"                                # what was given
    | \[redacted\]                                       # what is shown to nobody
    | \b0x[0-9a-fA-F]+
    | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
    | \b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b              # ids and digests
    | \d+(?:[.:,/-]\d+)*                                 # numbers, times, addresses
    """,
    re.VERBOSE,
)


def pattern_of(text: str) -> str:
    """Return the pattern of an error's text; '' for none."""
    kept = text[:TEXT_MAX].split("\n", 1)[0]
    pieces, last, stars = [], 0, 0
    for found in _VARIES.finditer(kept):
        if stars == STARS_MAX - 1:  # one is left for the rest
            kept = kept[: found.start()]
            break
        pieces.append(plain_pattern(kept[last : found.start()]))
        last, stars = found.end(), stars + 1
    pieces.append(plain_pattern(kept[last:]))
    if len(kept) < len(text) and (pieces[-1] or len(pieces) == 1):
        pieces.append("")  # a star for the rest, where none stands at the end already
    return "*".join(pieces)
