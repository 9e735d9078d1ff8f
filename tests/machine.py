"""How fast this machine is just now, for tests that limit what Python code may cost.

Beside other work a core gives less for each second of CPU time: caches and the other half of the
core are shared. So a limit is set for a machine on which the yardstick takes YARD_S, and is longer
where that takes longer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

#: CPU seconds of the yardstick on a quiet machine of the kind that the limits were set for.
YARD_S = 0.045
ROUNDS = 100_000


@dataclass(slots=True)
class _Thing:
    number: int
    name: str


def slowness() -> float:
    """Return how many times longer than there a fixed piece of Python takes now; at least 1."""
    return max(1.0, _yardstick() / YARD_S)


def _yardstick() -> float:
    """Return the CPU seconds of what most of our code does: objects, dictionaries, calls."""
    began = time.process_time()
    seen: dict[str, int] = {}
    for number in range(ROUNDS):
        thing = _Thing(number, f"name-{number % 97}")
        seen[thing.name] = seen.get(thing.name, 0) + max(thing.number, 1)
    assert len(seen) == 97
    return time.process_time() - began
