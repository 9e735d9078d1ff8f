"""Collect the sentences of the pages, and compile what they are in other languages.

`python tools/translations.py` adds sentences that are new to each catalogue, takes out those that
are gone, and compiles it; `--check` changes nothing and exits 1 when a catalogue is out of step or
lacks a sentence.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from autopsy.cause import MEANINGS
from supervisor.model.query import prose
from supervisor.model.states import REASON_MEANINGS
from supervisor.settings import table
from supervisor.web.language import LANGUAGES
from supervisor.words.retold import SHAPES

ROOT = Path(__file__).resolve().parent.parent
TRANSLATIONS = ROOT / "supervisor" / "web" / "translations"
#: Where sentences stand, and how files are read there.
PLACES = {
    "supervisor/web": [("templates/**.html", "jinja2"), ("**.py", "python")],
    "supervisor/words": [("**.py", "python")],
}
#: What takes a sentence: `_` and `_l` of the pages, `say` of the words.
KEYWORDS = {"_": None, "_l": None, "gettext": None, "ngettext": (1, 2), "say": None}
_FORMATTED = re.compile(r"\b(?:_|_l|gettext|say)\(\s*f[\"']")
OPTIONS = {"templates/**.html": {"trimmed": "true", "newstyle_gettext": "true"}}


def sentences() -> Catalog:
    """Return all that may be said, with where it stands."""
    found = Catalog()
    # Those are values of sentences; `formatted` finds the others.
    logging.getLogger("babel").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*f-string")
    for place, methods in PLACES.items():
        messages = extract_from_dir(
            ROOT / place, methods, OPTIONS, KEYWORDS, comment_tags=("for translators:",)
        )
        for name, _line, message, comments, context in messages:
            found.add(
                message,
                locations=[(f"{place}/{name}", 0)],
                auto_comments=comments,
                context=context,
            )
    for meaning in REASON_MEANINGS.values():
        found.add(meaning.replace("`", ""), locations=[("supervisor/model/states.py", 0)])
    for cause in MEANINGS.values():
        for sentence in (cause.sentence, cause.remedy):
            found.add(sentence, locations=[("autopsy/cause.py", 0)])
    for place, more in (
        ("supervisor/model/query.py", prose()),
        ("supervisor/settings", (setting.prose for setting in table())),
        ("supervisor/words/retold.py", SHAPES),
    ):
        for sentence in more:
            found.add(sentence, locations=[(place, 0)])
    return found


def formatted() -> Iterator[str]:
    """Yield where an f-string is said, which no catalogue can know."""
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            if _FORMATTED.search(path.read_text()):
                yield f"{path.relative_to(ROOT)} says an f-string"


def catalogue(code: str, found: Catalog) -> Catalog:
    """Return the catalogue of a language: exactly these sentences, with what is known of each."""
    path = _path(code)
    known = Catalog(locale=code)
    if path.exists():
        with path.open("rb") as file:
            known = read_po(file, locale=code)
    made = Catalog(
        locale=code, project="task-supervisor", header_comment="# Made by tools/translations.py.",
        fuzzy=False, creation_date=known.creation_date, revision_date=known.creation_date,
    )  # fmt: skip
    for message in found:
        if message.id:
            before = known.get(message.id, message.context)
            made.add(
                message.id,
                before.string if before is not None else None,
                locations=message.locations,
                auto_comments=message.auto_comments,
                context=message.context,
            )
    return made


def missing(made: Catalog) -> Iterator[str]:
    """Yield the sentences that are not translated, or not with the values that they have."""
    for message in made:
        strings = message.string if isinstance(message.string, tuple) else (message.string,)
        if message.id and (not all(strings) or list(message.check(made))):
            yield str(message.id)


def texts(made: Catalog) -> tuple[bytes, bytes]:
    """Return the catalogue as people edit it, and as the pages read it."""
    po, mo = io.BytesIO(), io.BytesIO()
    write_po(po, made, width=100, sort_output=True, include_lineno=False, ignore_obsolete=True)
    write_mo(mo, made)
    return po.getvalue(), mo.getvalue()


def _path(code: str, end: str = "po") -> Path:
    return TRANSLATIONS / code / "LC_MESSAGES" / f"messages.{end}"


def problems() -> list[str]:
    """Return what is out of step or missing, for people to read."""
    found, told = sentences(), list(formatted())
    for code in list(LANGUAGES)[1:]:
        made = catalogue(code, found)
        for path, text in _files(code, made):
            if not path.exists() or path.read_bytes() != text:
                told.append(f"{path.relative_to(ROOT)} is out of step")
        told += [f"{code} lacks: {sentence}" for sentence in missing(made)]
    return told


def write() -> None:
    """Write every catalogue anew."""
    found = sentences()
    for code in list(LANGUAGES)[1:]:
        for path, text in _files(code, catalogue(code, found)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)


def _files(code: str, made: Catalog) -> Iterator[tuple[Path, bytes]]:
    yield from zip((_path(code), _path(code, "mo")), texts(made), strict=True)


def main() -> int:
    """Run the command."""
    if "--check" not in sys.argv:
        write()
    told = problems()
    for problem in told:
        print(problem)
    if told:
        print(f"{len(told)} problems: run `python tools/translations.py`, then translate.")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
