"""The words by which people ask for tasks: `state:failed type:report* -by:ann ran:>5m refused`.

Secret kept here: how a query is written and read. Terms stand for "and", values between commas for
"or", a minus before a term for "not". What cannot be read is refused with its place in the text.
Pure: the store, the pages, the API and the command line share it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from supervisor.model.bound import DURATION_HINT, MOMENT_HINT, number_of, span_of, when_of
from supervisor.model.health import Code
from supervisor.model.misread import SENTENCES, QueryError, Sentence, sentence
from supervisor.model.spec import bad_text
from supervisor.model.states import Reason, State

__all__ = ["QUALIFIERS", "TEXT", "Kind", "Query", "QueryError", "Term", "parse", "render"]

#: What one query may hold; far more than a person writes.
TEXT_MAX, TERMS_MAX, VALUES_MAX, STARS_MAX = 2000, 20, 50, 8
#: What `bad_text` may name.
BAD_TEXTS = ("a NUL character", "a lone surrogate")
#: The name of terms without a qualifier.
TEXT = "text"
_NAME = re.compile(r"([A-Za-z_]+):")
_BARE = re.compile(r'[^\s",]+\Z')


class Kind(StrEnum):
    """What the values of a qualifier are."""

    CHOICE = "one of a few words"
    PATTERN = "a name; * stands for anything"
    EXACT = "a name"
    PART = "a part of it, or with * all of it"
    ALIKE = "all of it, with * for each thing that differs"
    MOMENT = "a time"
    SPAN = "a span of time"
    NUMBER = "a number"


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A word before the colon: what it asks for, an example, and the words it takes."""

    name: str
    kind: Kind
    hint: str
    example: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """One condition, which holds if one of its values does (none of them when negated)."""

    name: str
    values: tuple[str, ...]
    negated: bool = False


Query = tuple[Term, ...]


def _table(*qualifiers: Qualifier) -> Mapping[str, Qualifier]:
    return MappingProxyType({one.name: one for one in qualifiers})


QUALIFIERS = _table(
    Qualifier("state", Kind.CHOICE, "where it is in its life", "state:failed,timeout",
              tuple(State)),
    Qualifier("type", Kind.PATTERN, "its type", "type:report.*"),
    Qualifier("queue", Kind.PATTERN, "its queue", "queue:mail"),
    Qualifier("priority", Kind.NUMBER, "its priority, 0 to 9", "priority:>5"),
    Qualifier("tag", Kind.EXACT, "one of its tags; * for any", "tag:eu"),
    Qualifier("by", Kind.PATTERN, "who submitted it", "by:ann"),
    Qualifier("reason", Kind.CHOICE, "why it moved last; * for any", "reason:timeout",
              tuple(Reason)),
    Qualifier("verdict", Kind.CHOICE, "what was judged of its latest attempt; * for any",
              "verdict:stalled", tuple(Code)),
    Qualifier("error", Kind.PATTERN, "the kind of its latest error", "error:ConnectionError"),
    Qualifier("message", Kind.PART, "the text of its latest error", 'message:"timed out"'),
    Qualifier("pattern", Kind.ALIKE,
              'what its latest error has in common with others; "" for no text',
              'pattern:"to * refused"'),
    Qualifier("submitted", Kind.MOMENT, "when it was submitted", "submitted:>2h"),
    Qualifier("due", Kind.MOMENT, "from when on it may run", "due:>10m"),
    Qualifier("claimed", Kind.MOMENT, "when a node took it for its latest attempt",
              "claimed:<1h"),
    Qualifier("ended", Kind.MOMENT, "when it ended", "ended:today"),
    Qualifier("ran", Kind.SPAN, "how long its latest attempt ran, or runs", "ran:>5m"),
    Qualifier("attempts", Kind.NUMBER, "how many attempts were made", "attempts:>2"),
    Qualifier("retries", Kind.NUMBER, "how many retries were used", "retries:0"),
    Qualifier("quarantined", Kind.CHOICE, "whether it killed its workers too often",
              "quarantined:yes", ("yes", "no")),
    Qualifier("key", Kind.PATTERN, "its dedup key; * for any", "key:order.*"),
    Qualifier("node", Kind.PATTERN, "the id of the node of its latest attempt", "node:*"),
    Qualifier("parent", Kind.EXACT, "the id of the task that submitted it; * for any",
              "parent:*"),
)  # fmt: skip
#: Choices that also take `*`: they may be missing.
_ANY = frozenset({"reason", "verdict"})


@dataclass(frozen=True, slots=True)
class _Word:
    """A value as it was read, and from where to where it stands."""

    text: str
    start: int
    end: int


def parse(text: str) -> Query:
    """Read a query. Raises: QueryError."""
    if len(text) > TEXT_MAX:
        raise QueryError(
            TEXT_MAX, len(text) - TEXT_MAX,
            sentence("long", count=len(text)), sentence("at most read", most=TEXT_MAX),
        )  # fmt: skip
    terms = tuple(_terms(text))
    if len(terms) > TERMS_MAX:
        raise QueryError(
            0, len(text),
            sentence("terms", count=len(terms)), sentence("at most taken", most=TERMS_MAX),
        )  # fmt: skip
    return terms


def render(query: Sequence[Term]) -> str:
    """Write a query so that `parse` reads the same."""
    return " ".join(_rendered(term) for term in query)


def states_left(query: Sequence[Term]) -> list[State]:
    """Return the states that a query leaves, in their own order."""
    left = set(State)
    for term in query:
        if term.name == "state":
            named = {State(value) for value in term.values}
            left = left - named if term.negated else left & named
    return [state for state in State if state in left]


def plain_pattern(text: str) -> str:
    """Return a pattern that stands for this text alone, whatever stars it has."""
    return text.replace("\\", "\\\\").replace("*", "\\*")


def pieces(pattern: str) -> list[str]:
    r"""Return the texts between the stars of a pattern; `\*` and `\\` stand for themselves."""
    found = [""]
    escaped = False
    for char in pattern:
        if escaped:
            found[-1] += char if char in "*\\" else f"\\{char}"
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "*":
            found.append("")
        else:
            found[-1] += char
    if escaped:
        found[-1] += "\\"
    return found


# --- reading ----------------------------------------------------------------------------------


def _terms(text: str) -> Iterator[Term]:
    at = 0
    while (at := _skip(text, at)) < len(text):
        negated = text[at] == "-" and _skip(text, at + 1) == at + 1 < len(text)
        at += negated
        named = _NAME.match(text, at)
        if named is None:
            word = _quoted(text, at) if text[at] == '"' else _until_space(text, at)
            _check_text(word)
            yield Term(TEXT, (word.text,), negated)
            at = word.end
        else:
            qualifier = _qualifier(named[1], at)
            words = list(_values(text, named.end(), qualifier))
            values = dict.fromkeys(_checked(qualifier, word) for word in words)
            yield Term(qualifier.name, tuple(values), negated)
            at = words[-1].end
        if at < len(text) and not text[at].isspace():
            raise QueryError(at, 1, sentence("follows"), sentence("space"))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _until_space(text: str, at: int) -> _Word:
    end = at
    while end < len(text) and not text[end].isspace():
        end += 1
    return _Word(text[at:end], at, end)


def _quoted(text: str, at: int) -> _Word:
    found: list[str] = []
    end = at + 1
    while end < len(text):
        char = text[end]
        if char == '"':
            return _Word("".join(found), at, end + 1)
        if char == "\\" and text[end + 1 : end + 2] in ('"', "\\"):
            end += 1
            char = text[end]
        found.append(char)
        end += 1
    raise QueryError(at, len(text) - at, sentence("open"), sentence("close"))


def _values(text: str, at: int, qualifier: Qualifier) -> Iterator[_Word]:
    count = 0
    while True:
        word = _quoted(text, at) if text[at : at + 1] == '"' else _until_end_of_value(text, at)
        if word.start == word.end:
            raise QueryError(at, 1, sentence("silent", name=qualifier.name), _takes(qualifier))
        count += 1
        if count > VALUES_MAX:
            raise QueryError(
                word.start, word.end - word.start,
                sentence("many", name=qualifier.name), sentence("at most taken", most=VALUES_MAX),
            )  # fmt: skip
        yield word
        if text[word.end : word.end + 1] != ",":
            return
        at = word.end + 1


def _until_end_of_value(text: str, at: int) -> _Word:
    end = at
    while end < len(text) and not text[end].isspace() and text[end] != ",":
        end += 1
    return _Word(text[at:end], at, end)


def _qualifier(name: str, at: int) -> Qualifier:
    found = QUALIFIERS.get(name.lower())
    if found is not None:
        return found
    near = _near(name.lower(), QUALIFIERS)
    suggestions = [sentence("near name", near=near)] if near else []
    names = sentence("names", names=", ".join(QUALIFIERS))
    what = sentence("unknown name", name=name)
    raise QueryError(at, len(name) + 1, what, *suggestions, names)


def _check_text(word: _Word) -> None:
    if not word.text.strip():
        raise QueryError(word.start, 2, sentence("empty"), sentence("leave them"))
    if bad := bad_text(word.text):
        what = sentence("bad text", "bad", bad=bad)
        raise QueryError(word.start, word.end - word.start, what, sentence("leave it"))


def _checked(qualifier: Qualifier, word: _Word) -> str:
    """Return the value in the form in which it is kept."""
    if bad := bad_text(word.text):
        raise _wrong(
            qualifier, word, sentence("bad value", "bad", bad=bad, **_named(qualifier, word))
        )
    match qualifier.kind:
        case Kind.CHOICE:
            return _choice(qualifier, word)
        case Kind.MOMENT | Kind.SPAN | Kind.NUMBER:
            value = "".join(word.text.split())
            if not _READERS[qualifier.kind](value):
                raise _wrong(qualifier, word, sentence("unreadable", **_named(qualifier, word)))
            return value
        case Kind.PATTERN | Kind.PART:
            if len(pieces(word.text)) - 1 > STARS_MAX:
                named = _named(qualifier, word)
                raise _wrong(qualifier, word, sentence("stars", most=STARS_MAX, **named))
    return word.text


_READERS = {
    Kind.MOMENT: lambda value: when_of(value) is not None,
    Kind.SPAN: lambda value: span_of(value) is not None,
    Kind.NUMBER: lambda value: number_of(value) is not None,
}


def _choice(qualifier: Qualifier, word: _Word) -> str:
    if word.text == "*" and qualifier.name in _ANY:
        return "*"
    by_fold = {choice.lower(): str(choice) for choice in qualifier.choices}
    found = by_fold.get(word.text.lower())
    if found is None:
        near = _near(word.text.lower(), by_fold)
        what = sentence("unknown value", **_named(qualifier, word))
        raise _wrong(qualifier, word, what, near)
    return found


def _named(qualifier: Qualifier, word: _Word) -> dict[str, str]:
    return {"name": qualifier.name, "value": word.text}


def _wrong(
    qualifier: Qualifier, word: _Word, what: Sentence, near: str | None = None
) -> QueryError:
    suggestions = [sentence("near value", name=qualifier.name, near=near)] if near else []
    length = word.end - word.start
    return QueryError(word.start, length, what, *suggestions, _takes(qualifier))


def _takes(qualifier: Qualifier) -> Sentence:
    """Say what may stand behind the colon."""
    if qualifier.kind is Kind.CHOICE:
        what = ", ".join(choice.lower() for choice in qualifier.choices)
        return sentence("takes", what=what, example=qualifier.example)
    what = _HINTS.get(qualifier.kind, qualifier.kind.value)
    return sentence("takes", "what", what=what, example=qualifier.example)


_HINTS: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.MOMENT: MOMENT_HINT,
        Kind.SPAN: DURATION_HINT,
        Kind.NUMBER: "a number, or >2, <2, >=2, <=2",
    }
)


def prose() -> Iterator[str]:
    """Return all that is said of queries, for a catalogue."""
    yield from SENTENCES.values()
    yield from (one.hint for one in QUALIFIERS.values())
    yield from (_HINTS.get(kind, kind.value) for kind in Kind if kind is not Kind.CHOICE)
    yield from BAD_TEXTS


def _near(word: str, known: Mapping[str, object]) -> str | None:
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


# --- writing ----------------------------------------------------------------------------------


def _rendered(term: Term) -> str:
    minus = "-" if term.negated else ""
    if term.name == TEXT:
        (text,) = term.values
        is_plain = _BARE.match(text) and ":" not in text and not text.startswith("-")
        return minus + (text if is_plain else _in_quotes(text))
    qualifier = QUALIFIERS[term.name]
    fold = qualifier.kind is Kind.CHOICE
    shown = (value.lower() if fold else value for value in term.values)
    values = (value if _BARE.match(value) else _in_quotes(value) for value in shown)
    return f"{minus}{term.name}:{','.join(values)}"


def _in_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
