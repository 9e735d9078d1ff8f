"""What people read has no number such as 2.14748e+09."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autopsy.report.reading import figure as in_report
from supervisor.web.wording import amount
from supervisor.words.living import Progress
from supervisor.words.text import figure

ROOT = Path(__file__).parents[2]
_EXPONENT = re.compile(r"(?<!\w)\d[\d.]*e[+-]\d")


def test_no_page_of_the_docs_has_one() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 50
    found = {
        f"{page.name}:{number}: {line}"
        for page in pages
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if _EXPONENT.search(line)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("number", "text"),
    [(3.0, "3"), (2.5, "2.5"), (1234567.0, "1234567"), (2147483648.0, "2147483648"),
     (1234567.25, "1234567.2"), (0.0, "0"), (-4.0, "-4")],
)  # fmt: skip
def test_a_number_that_a_task_chose_has_its_digits(number: float, text: str) -> None:
    assert figure(number) == text


def test_progress_over_a_million_is_readable_everywhere() -> None:
    assert str(Progress(1_234_567.0, 2_000_000.0, 3.0)) == "1234567 of 2000000, 3.0 s ago"
    assert in_report(1_234_567.0) == "1234567"
    assert amount(1234.5, "tasks") == "1,234 tasks"
    assert amount(1_234_567.0) == "1,234,567"
