"""The error tree: every error says what happened and what a person can do about it.

    SupervisorError
    ├── ConfigError            a setting, flag, file or import is wrong            (exit 2)
    ├── Refused                the request is understood and not allowed           (exit 1)
    │   ├── InvalidSpec        a task spec has bad fields, each named by its path
    │   ├── UnknownTaskType    the app knows no such type
    │   ├── UnknownTask        no task has this id
    │   └── NoResult           the task has not ended, or not with SUCCESS
    ├── WaitTimeout            a task had not ended when the caller's patience had
    ├── IllegalTransition      a bug: a move outside the transition table
    ├── DependencyAway         a dependency does not answer                        (exit 69)
    │   ├── StoreUnavailable
    │   └── QueueUnavailable
    ├── ArchiveBroken          a cold file is not as it was written
    ├── BootFailed             the user's app could not be imported
    └── WireBroken             a message between node and worker is not what it should be

What interrupts user code (`TaskCanceled`, `SoftTimeout`, `ShutdownRequested`) derives from
BaseException, so that `except Exception` in a task body cannot swallow it.
"""

from __future__ import annotations

from dataclasses import dataclass


class SupervisorError(Exception):
    """Something went wrong in the supervisor."""

    exit_code = 1

    def __init__(self, message: str = "", *, remedy: str = "", **facts: object) -> None:
        self.message = message or (type(self).__doc__ or "").split("\n")[0]
        self.remedy = remedy
        self.facts = facts
        super().__init__(self.message)


class ConfigError(SupervisorError):
    """The configuration is wrong."""

    exit_code = 2


class Refused(SupervisorError):
    """The request was refused."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One bad field: where it is, what is wrong with it, what was given (shortened)."""

    path: str
    why: str
    given: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" + (f" (given: {self.given})" if self.given else "")


class InvalidSpec(Refused):
    """The task spec is not valid."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__(
            "; ".join(str(problem) for problem in problems),
            remedy="Correct the named fields and submit again; nothing was written.",
        )


class UnknownTaskType(Refused):
    """No task type of this name is registered with the app."""


class UnknownTask(Refused):
    """No task has this id."""


class NoResult(Refused):
    """This task has no result."""


class WaitTimeout(SupervisorError, TimeoutError):
    """The task had not ended in time; it goes on."""


class IllegalTransition(SupervisorError):
    """A state change outside the transition table was attempted."""


class DependencyAway(SupervisorError):
    """A dependency does not answer."""

    exit_code = 69


class StoreUnavailable(DependencyAway):
    """The task store does not answer."""


class StoreUnready(StoreUnavailable):
    """The database holds no task store, or one of an older version."""


class StoreBusy(StoreUnavailable):
    """Another transaction got in the way: nothing was written, the same can be tried again."""


class QueueUnavailable(DependencyAway):
    """The doorbell does not answer."""


class ArchiveBroken(SupervisorError):
    """A cold file of the archive is not as it was written."""


class BootFailed(SupervisorError):
    """The app could not be imported."""

    exit_code = 2


class WireBroken(SupervisorError):
    """A message between node and worker could not be read."""


class Interruption(BaseException):
    """What the supervisor raises inside a task body; not an Exception on purpose."""


class TaskCanceled(Interruption):
    """This attempt was asked to stop because its task is canceled or force-failed."""


class SoftTimeout(Interruption):
    """This attempt has used up its soft time limit; the hard one follows."""


class ShutdownRequested(Interruption):
    """The node is stopping: save a checkpoint and leave; the task will run again."""
