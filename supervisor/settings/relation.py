"""Rules between settings: values that are fine alone and wrong together.

Pure. The node refuses to start on them and `supervisor check` prints them. Source: S2 §3.1 and
the stop sequence of a node: drain, checkpoint, release, exit, evidence, then two seconds of slack.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.errors import Problem
from supervisor.model import lease
from supervisor.settings.address import NO_QUEUE, is_file, without_password
from supervisor.settings.limits import soft_below
from supervisor.settings.table import Settings

STOP_SLACK_S = 2.0  # reaping, the last commit and the exit of the node itself


@dataclass(frozen=True, slots=True)
class GraceSum:
    """How long a node may take to stop, by stage, in seconds."""

    stages: tuple[tuple[str, float], ...]

    @property
    def total(self) -> float:
        """The sum of all stages."""
        return sum(seconds for _, seconds in self.stages)

    def __str__(self) -> str:
        parts = " + ".join(f"{name} {seconds:g}" for name, seconds in self.stages)
        return f"{parts} = {self.total:g} s"


def node_grace(settings: Settings) -> GraceSum:
    """Add up the longest stop of a whole node."""
    return GraceSum(
        (
            ("drain_grace", settings.drain_grace),
            ("checkpoint_budget", settings.checkpoint_budget),
            ("release_budget", settings.release_budget),
            ("exit_budget", settings.exit_budget),
            ("autopsy_budget", settings.autopsy_budget),
            ("slack", STOP_SLACK_S),
        )
    )


def fence_after(settings: Settings) -> float:
    """Return the seconds after its last good renewal at which a node must stop its workers."""
    return lease.plan(settings.lease, settings.cancel_grace, settings.autopsy_budget).fence_after_s


def relation_problems(settings: Settings, orchestrator_grace: float | None = None) -> list[Problem]:
    """Return every rule between settings that does not hold.

    `orchestrator_grace` is what systemd, Docker or Kubernetes waits before it kills, in seconds.
    """
    found = [
        *_queue_problems(settings),
        *_lease_problems(settings),
        *_task_problems(settings),
    ]
    grace = node_grace(settings)
    if orchestrator_grace is not None and orchestrator_grace <= grace.total:
        found.append(
            Problem(
                "grace",
                f"must be above {grace.total:g} s, the longest stop of a node ({grace}); give the "
                "orchestrator more time or shorten these settings",
                f"{orchestrator_grace:g}",
            )
        )
    return found


def relation_warnings(settings: Settings) -> list[Problem]:
    """Return what is allowed and probably not meant."""
    if is_file(settings.store):
        return []
    return [*_short_lease(settings), *_short_safety(settings)]


def _short_safety(settings: Settings) -> list[Problem]:
    needed = settings.lease / lease.RENEWALS + lease.slack_s(settings.lease)
    if settings.requeue_safety >= needed:
        return []
    return [
        Problem(
            "requeue_safety",
            f"is below {needed:g} s, a ninth of the lease and its slack: if the clock of the "
            "database jumps forward, a node learns that its lease is over only then, and a task "
            "could run twice at once",
            f"{settings.requeue_safety:g}",
        )
    ]


def _short_lease(settings: Settings) -> list[Problem]:
    graces = settings.cancel_grace, settings.autopsy_budget
    needed = lease.needed_s(settings.lease, *graces)
    left = settings.lease - lease.plan(settings.lease, *graces).fence_after_s
    if needed <= left or settings.lease <= needed:
        return []
    return [
        Problem(
            "lease",
            f"leaves a node that loses the store {left:g} s to end its attempts in order, of the "
            f"{needed:g} s that cancel_grace and autopsy_budget ask for: both are cut short",
            f"{settings.lease:g}",
        )
    ]


def _queue_problems(settings: Settings) -> list[Problem]:
    if settings.queue == NO_QUEUE or not is_file(settings.store):
        return []
    return [
        Problem(
            "queue",
            "a Redis rings for the nodes of many hosts, and a file is a store for one node, which "
            "its wake socket serves: leave queue at none, or name a store on a PostgreSQL server",
            without_password(settings.queue),
        )
    ]


def _lease_problems(settings: Settings) -> list[Problem]:
    needed = lease.needed_s(settings.lease, settings.cancel_grace, settings.autopsy_budget)
    if settings.lease > needed or is_file(settings.store):  # nothing waits for a lease there
        return []
    return [
        Problem(
            "lease",
            f"must be above cancel_grace + autopsy_budget + {lease.slack_s(settings.lease):g} = "
            f"{needed:g} s, or a node that loses the store cannot end its attempts in order",
            f"{settings.lease:g}",
        )
    ]


def _task_problems(settings: Settings) -> list[Problem]:
    found = []
    soft = settings.soft_timeout
    if soft is not None and soft_below(soft, settings.timeout) != soft:
        found.append(
            Problem("soft_timeout", f"must be below timeout ({settings.timeout:g} s)", f"{soft:g}")
        )
    if settings.retry_max < settings.retry_base:
        found.append(
            Problem(
                "retry_max",
                f"must not be below retry_base ({settings.retry_base:g} s)",
                f"{settings.retry_max:g}",
            )
        )
    return found
