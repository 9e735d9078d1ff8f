"""Every code that a rule can yield has a meaning, and no meaning is of a code that none yields."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autopsy.cause import MEANINGS, Code, Diagnosis, hit, meaning

AUTOPSY = Path(__file__).parents[2] / "autopsy"
RULES = [AUTOPSY / "diagnose.py", *sorted((AUTOPSY / "rule").glob("*.py"))]


def yielded() -> set[str]:
    """The codes that the source of the rules names; `hit` takes nothing else (mypy)."""
    return {
        node.attr
        for path in RULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Code"
    }


def test_the_table_holds_what_the_rules_can_yield_and_nothing_else() -> None:
    assert {Code[name] for name in yielded()} == set(MEANINGS) == set(Code)


def test_only_hit_makes_a_code() -> None:
    literal = {
        node.value
        for path in RULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert literal & {code.value for code in Code if "." in code} == set()


@pytest.mark.parametrize("code", Code)
def test_a_meaning_is_sentences_of_english(code: Code) -> None:
    said = MEANINGS[code]
    for text in (said.sentence, said.remedy):
        assert text[0].isupper()
        assert text.endswith(".")
        assert "|" not in text
        assert len(text) <= 160
    assert said.sentence.count(".") == 1


def test_a_code_is_plain_text_in_a_diagnosis() -> None:
    found = hit(Code.BLOCKED_SLEEP, 0.804, "process: asleep")
    assert found == Diagnosis("blocked.sleep", 0.8, ("process: asleep",))
    assert type(found.code) is str


def test_a_code_of_another_version_has_no_meaning() -> None:
    assert meaning("blocked.sleep") == MEANINGS[Code.BLOCKED_SLEEP]
    assert meaning("blocked.moon") is None
