"""What can be seen of the demo at one moment, and at its end: values for the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from supervisor.demo.cast import CAST
from supervisor.demo.stage import Leftover
from supervisor.model.states import ENDED, State
from supervisor.store import AutopsyRecord
from supervisor.store.view import TaskLine


@dataclass(frozen=True, slots=True)
class Scene:
    """All that can be seen at one moment; `of_part` holds the tasks of each part by its name.

    `cued`: when a task got its cue; `usage`: what its last attempt used and left behind.
    """

    age_s: float
    at: datetime
    of_part: Mapping[str, tuple[TaskLine, ...]]
    cued: Mapping[str, datetime]
    usage: Mapping[str, Mapping[str, float]]
    autopsies: tuple[AutopsyRecord, ...]
    counts: Mapping[State, int]
    metrics_url: str | None
    pages_url: str | None = None

    @property
    def played(self) -> bool:
        """Whether every part is over."""
        return all(
            len(self.of_part[part.name]) == part.tasks
            and all(line.state in ENDED for line in self.of_part[part.name])
            for part in CAST
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """What the summary is made of."""

    scene: Scene
    leftovers: tuple[Leftover, ...]
    stopped_in_order: bool
    duration_s: float

    @property
    def clean(self) -> bool:
        """Whether nothing is left behind and the node went in order."""
        return not self.leftovers and self.stopped_in_order
