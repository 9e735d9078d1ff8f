"""What needs a person now, and what stands still, as on the first page."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from supervisor.model.access import Right
from supervisor.web import census
from supervisor.web.api.endpoint import READ, Endpoint, Moment, Nothing
from supervisor.web.attention import findings
from supervisor.web.scene import scene_of
from supervisor.web.visit import Visit

Urgency = Literal["now", "soon", "known"]


class FindingTold(msgspec.Struct):
    """Something that waits for a person; `path` is the page to go on to, null for none."""

    urgency: Urgency
    text: str
    path: str | None


class Running(msgspec.Struct):
    """An attempt that runs."""

    task_id: str
    attempt: int
    type: str
    node_id: str
    started_at: Moment


class WorkersKept(msgspec.Struct):
    """The node that kept the least of the workers it wanted: the mean share of 5 minutes.

    Not `tells` where it was asked for too short a time to mean something.
    """

    node_name: str
    share: float
    tells: bool


class Attention(msgspec.Struct, kw_only=True):
    """What needs a person, the most urgent first.

    `zombies` are by kind; without those kinds that no node has said. `silent` nodes that run have
    said nothing lately.
    """

    at: Moment
    findings: list[FindingTold]
    oldest_running: Running | None
    zombies: dict[str, int]
    survival: WorkersKept | None
    silent: int


def get_attention(visit: Visit, _query: Nothing, _body: None) -> Attention:
    """Show what needs a person now, in sentences, and what they are made of."""
    (states, _), (endings, _) = census.states(visit), census.endings(visit)
    scene = scene_of(visit, states, endings)
    oldest = next((one for one in scene.at_work if one.started_at), None)
    kept = scene.survey.survival
    return Attention(
        at=scene.now,
        findings=[
            FindingTold(get_args(Urgency)[one.urgency], one.text, one.path)
            for one in findings(scene)
        ],
        oldest_running=None
        if oldest is None
        else msgspec.convert(oldest, Running, from_attributes=True),
        zombies={"lost": scene.lost, **scene.survey.zombies},
        survival=None if kept is None else msgspec.convert(kept, WorkersKept, from_attributes=True),
        silent=scene.survey.silent,
    )


ENDPOINTS = (
    Endpoint(
        method=READ, rule="/attention", function=get_attention, needs=Right.TASKS, answer=Attention
    ),
)
