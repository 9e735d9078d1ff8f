"""Tables of a run, put into docs/benchmarks.md where the page has marks for them."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def put(name: str, tables: str) -> None:
    """Write the tables between the marks of that name."""
    PAGE.write_text(placed(PAGE.read_text(), name, tables))


def placed(text: str, name: str, tables: str) -> str:
    """Return a page with these tables in place of those between the marks.

    Raises: ValueError when the page has no such marks.
    """
    begin, end = f"<!-- {name}: written by the benchmark -->\n", f"<!-- end of {name} -->\n"
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no marks for {name}")
    return f"{head}{begin}\n{tables}\n\n{end}{tail}"
