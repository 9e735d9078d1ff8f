"""The error tree of `autopsy`: every error says what a person can do about it.

AutopsyError                exit 1
├── NoSuchPatient           nothing runs under this pid
├── PatientReplaced         the pid now belongs to another process
├── AlreadyExamined         somebody examines this process right now
├── RingUnreadable          a ring is not one of ours
├── BundleUnreadable        a bundle is missing, damaged or from a newer version
├── BundleNotWritten        the bundle could not be put in its place
└── UsageError              a command line or its input is wrong (exit 2)
"""

from __future__ import annotations


class AutopsyError(Exception):
    """The autopsy could not be done."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message)


class NoSuchPatient(AutopsyError):
    """Nothing runs under this pid."""


class PatientReplaced(AutopsyError):
    """The pid now belongs to another process."""


class AlreadyExamined(AutopsyError):
    """Somebody examines this process right now."""


class RingUnreadable(AutopsyError):
    """The shared memory is not a ring of this version."""


class BundleUnreadable(AutopsyError):
    """The bundle cannot be read."""


class BundleNotWritten(AutopsyError):
    """The bundle could not be put in its place; `report` says what would have been in it."""

    report = ""


class UsageError(AutopsyError):
    """The command line or its input is wrong."""

    exit_code = 2
