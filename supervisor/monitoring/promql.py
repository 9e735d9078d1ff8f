"""Reads of a PromQL expression what it asks for: metrics with their matchers, labels, ranges.

Secret kept here: which words of an expression are names. It does not judge the syntax (`promtool
check rules` does): of what is no PromQL it reads something. Variables of Grafana are let through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NAME = "__name__"
#: Words that stand where a metric could. PromQL does not mind how they are written.
_WORDS = frozenset(
    {"and", "or", "unless", "atan2", "bool", "offset", "by", "without", "on", "ignoring"}
    | {"group_left", "group_right", "inf", "nan"}
)
#: Words that a list of labels in parentheses follows, if one does.
_BEFORE_LABELS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ | \#[^\n]* )
  | (?P<text> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*` )
  | (?P<variable> \$\w+ | \$\{[^}]*\} | \[\[\w+\]\] )
  | (?P<range> \[[^\]]*\] )
  | (?P<number> (?:\d[\w.]*|\.\d\w*) (?:(?<=[eE])[+-]\d+)? )
  | (?P<word> [A-Za-z_:][\w:]* )
  | (?P<operator> =~|!~|!=|==|<=|>=|. )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_DURATION = re.compile(r"(\d+)(ms|[smhdwy])")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

#: (kind, text)
_Token = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label; `operator` is =, !=, =~ or !~."""

    label: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """One metric that is asked for; without a name, the matchers say which."""

    name: str
    matchers: tuple[Matcher, ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """What an expression asks for, in the order of its text."""

    selectors: tuple[Selector, ...]
    #: Labels that it groups or joins by.
    labels: tuple[str, ...]
    #: Ranges whose length is written out.
    ranges_s: tuple[float, ...]


def read(text: str) -> Expression:
    """Return what an expression asks for."""
    tokens = [
        (str(found.lastgroup), found[0])
        for found in _TOKEN.finditer(text)
        if found.lastgroup != "space"
    ]
    reading = _Reading(tokens)
    reading.run()
    return Expression(tuple(reading.selectors), tuple(reading.labels), tuple(reading.ranges_s))


class _Reading:
    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self.selectors: list[Selector] = []
        self.labels: list[str] = []
        self.ranges_s: list[float] = []

    def run(self) -> None:
        while self._at < len(self._tokens):
            kind, text = self._take()
            if kind == "word":
                self._word(text)
            elif kind == "range":
                if (length_s := duration_s(text[1:-1].partition(":")[0].strip())) is not None:
                    self.ranges_s.append(length_s)
            elif text == "{":
                self._selector("")

    def _word(self, word: str) -> None:
        lower = word.lower()
        if lower in _BEFORE_LABELS and self._next() == "(":
            self._take()
            self.labels += [text for kind, text in self._until(")") if kind == "word"]
        elif lower in _WORDS or self._next() == "(":
            return  # a function, or an aggregation that groups afterwards, if at all
        elif (self._next() or "").lower() in ("by", "without"):
            return  # an aggregation that groups first
        elif self._next() == "{":
            self._take()
            self._selector(word)
        else:
            self.selectors.append(Selector(word))

    def _selector(self, name: str) -> None:
        matchers: list[Matcher] = []
        inside = list(self._until("}"))
        for at, (kind, text) in enumerate(inside):
            before = inside[at - 1][1] if at else ","
            if kind != "text":
                continue
            if before == ",":  # a name in quotation marks
                name = _unquoted(text)
            elif at >= 2:
                matchers.append(Matcher(_label(inside[at - 2]), before, _unquoted(text)))
        named = [one.value for one in matchers if (one.label, one.operator) == (NAME, "=")]
        self.selectors.append(Selector(name or "".join(named), tuple(matchers)))

    def _until(self, end: str) -> Iterator[_Token]:
        while self._at < len(self._tokens):
            token = self._take()
            if token == ("operator", end):
                return
            yield token

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _next(self) -> str | None:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None


def duration_s(text: str) -> float | None:
    """Read a duration such as 1h30m; None for what is none."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return float(sum(int(number) * _SECONDS[unit] for number, unit in parts))


def _label(token: _Token) -> str:
    kind, text = token
    return _unquoted(text) if kind == "text" else text


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    return inner if text[0] == "`" else _ESCAPE.sub(_unescaped, inner)


def _unescaped(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1])
