"""What attempts that wait for the same thing have in common: a code, a resource, a frame.

Secret: how evidence, which is sentences, is read back. Pure, never raises: a diagnosis can come
from another version. Two attempts of one signature wait at the same place for the same thing; which
thread, which process and how long is left out of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: What is waited for, by the sentence that names it; the first that is found counts.
_THINGS = (
    ("waits for the lock {}", re.compile(r"waits for the lock `([^`]+)`")),
    ("waits for the lock {}", re.compile(r"waits for ([A-Za-z_][\w.]*), (?:which|held by|whose)")),
    ("waits for the key {}", re.compile(r"the key (\S+) is held by")),
    ("waits for the file {}", re.compile(r"databases: (\S+) is locked by")),
    ("waits for the statement {}", re.compile(r"databases: session \d+ .*? for [^:]+: (.+)")),
    ("waits for the statement {}", re.compile(r"is blocked by pid .*?last statement: (.+)")),
    ("waits for {} in the database", re.compile(r"databases: it waits for (\S+)")),
    ("waits for the peer {}", re.compile(r"\bpeer (\S+?)(?:,|$)")),
    ("waits for the child {}", re.compile(r"children: .*?\d+ \(([^)]+)\)")),
    ("waits for {}", re.compile(r"fds: \S+ is (\S+)")),
)
_PLACE = re.compile(r"([\w.<>]+ \([^()]*:\d+\))|(?<= )([^\s()]+:\d+)\b")
#: What differs between two runs of the same: numbers, quoted values, addresses.
_LITERAL = re.compile(r"'(?:[^']|'')*'|\b0x[0-9a-fA-F]+\b|\b\d+(?:\.\d+)?\b")
_TEXT_MOST = 200
#: Ports from here on are given to a client for one connection.
_PASSING_PORTS = 32768


@dataclass(frozen=True, slots=True)
class WaitSignature:
    """What it does (mostly: waits for something) and where; either may be ""."""

    code: str
    what: str
    where: str

    @property
    def key(self) -> str:
        """A short name of it, the same for ever."""
        told = json.dumps([self.code, self.what, self.where])
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def told(self) -> str:
        """Say it in a line."""
        where = f"in {self.where}" if self.where else ""
        return " ".join(filter(None, (f"{self.code}:", self.what, where))).removesuffix(":")


def wait_signature(diagnosis_json: str | None) -> WaitSignature | None:
    """Return the signature of the best cause of a diagnosis; None where there is none."""
    best = _best(diagnosis_json)
    if best is None:
        return None
    code = best.get("code")
    found = best.get("evidence")
    if not isinstance(code, str) or not code:
        return None
    evidence = [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
    what, where = _what(evidence), _where(evidence)
    if not what and not where and evidence:
        what = _alike(evidence[0])
    return WaitSignature(code[:_TEXT_MOST], what, where)


def _best(diagnosis_json: str | None) -> dict[str, Any] | None:
    try:
        causes = json.loads(diagnosis_json or "null")
    except (ValueError, RecursionError):
        return None
    first = causes[0] if isinstance(causes, list) and causes else None
    return first if isinstance(first, dict) else None


def _what(evidence: Sequence[str]) -> str:
    for name, pattern in _THINGS:
        for line in evidence:
            if match := pattern.search(line):
                return name.format(_thing(name, match[1]))
    return ""


def _thing(name: str, found: str) -> str:
    """Return what is waited for without what differs from run to run."""
    if "statement" in name:
        return _alike(found)
    host, colon, port = found.rpartition(":")
    if "peer" in name and colon and port.isdecimal() and int(port[:6]) >= _PASSING_PORTS:
        return f"{host[:_TEXT_MOST]}:?"
    return found[:_TEXT_MOST]


def _where(evidence: Sequence[str]) -> str:
    for line in evidence:
        if line.startswith("stacks: ") and (match := _PLACE.search(line)):
            return match[0][:_TEXT_MOST]
    return ""


def _alike(text: str) -> str:
    """Return a text without what differs from run to run."""
    return _LITERAL.sub("?", text[: 4 * _TEXT_MOST])[:_TEXT_MOST]
