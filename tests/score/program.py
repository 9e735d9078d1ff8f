"""What a stuck program says about itself: the right answers, and what it needs to get stuck.

Convention: the docstring begins `DIAGNOSIS <code>[|<code>] ...: why`; a file whose name begins with
an underscore is no program.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

SERVERS, PROCESSOR = "servers", "a processor"
#: Programs that may be diagnosed so compute while they are looked at; all others only wait.
AT_WORK = ("busy.", "leak.memory", "none.progressing")
HEALTHY = frozenset({"none.idle", "none.progressing"})
_FIRST_LINE = re.compile(r"DIAGNOSIS\s+([a-z_.|]+)(.*)", re.DOTALL)
#: Looked at while they happen: a second later an exit is over, and memory grows no longer.
_SETTLE_S = {"none.exited": 0.0, "leak.memory_python": 0.2, "leak.memory_native": 0.2}
#: For everything else; by then it has long been stuck.
SETTLE_S = 1.0


@dataclass(frozen=True, slots=True)
class Program:
    """A program that gets stuck, and which diagnoses of it are right.

    Two with the same `needs` do not run at the same time.
    """

    path: Path
    expected: tuple[str, ...]
    why: str
    needs: str

    @property
    def name(self) -> str:
        """Return the name of the case."""
        return self.path.stem

    @property
    def is_control(self) -> bool:
        """Say whether nothing is wrong with it."""
        return HEALTHY.issuperset(self.expected)

    @property
    def only_waits(self) -> bool:
        """Say whether it leaves the processors to others while it is stuck."""
        return not any(code.startswith(AT_WORK) for code in self.expected)

    def settle_s(self, most_s: float) -> float:
        """Return how long to wait after it has said that it is ready."""
        return min(_SETTLE_S.get(code, most_s) for code in self.expected)


def programs_of(directory: Path) -> list[Program]:
    """Return the programs of a directory by name. Raises ValueError if one says nothing."""
    paths = sorted(directory.glob("*.py"))
    return [program_of(path, path.read_text()) for path in paths if not path.name.startswith("_")]


def program_of(path: Path, text: str) -> Program:
    """Return what the text of a program says. Raises ValueError if it says nothing."""
    found = _FIRST_LINE.match(ast.get_docstring(ast.parse(text)) or "")
    if found is None:
        raise ValueError(f"{path}: the docstring does not begin with DIAGNOSIS <code>")
    expected = tuple(found[1].strip("|").split("|"))
    why = " ".join(found[2].split("\n\n")[0].split()).lstrip(": ")
    return Program(path, expected, why, _needs(expected, text))


def _needs(expected: tuple[str, ...], text: str) -> str:
    """Return what a program wants for itself: the servers, or a processor."""
    if re.search(r"psycopg|sqlalchemy|redis", text):
        return SERVERS
    return PROCESSOR if any(code.startswith("busy.") for code in expected) else ""
