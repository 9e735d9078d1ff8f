"""The shape of an answer, apart from the rules: a bundle is written without loading them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One possible cause: its code, how sure we are (0 to 1) and what was read where."""

    code: str
    confidence: float
    evidence: tuple[str, ...]
