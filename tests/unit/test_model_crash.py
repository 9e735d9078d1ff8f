"""What a death is called: by exit status and counters, each cause only with its evidence."""

from __future__ import annotations

import signal

import pytest

from supervisor.model import outcome as ended
from supervisor.model.crash import ExitStatus, OomEvidence, cause_of_death, is_native, signal_name
from supervisor.model.outcome import Outcome
from supervisor.model.states import CRASH_REASONS, Reason, State

ROSE = OomEvidence(killed=True, text="oom_kill of control group /jobs rose to 4")
STILL = OomEvidence(killed=False, text="oom_kill of control group /jobs did not rise")
UNKNOWN = "that the node did not send, sender unknown"


@pytest.mark.parametrize(
    ("status", "oom", "reason", "words"),
    [
        (
            ExitStatus(signal=9), ROSE, Reason.OOM_KILLED,
            ("the worker was killed by signal 9 (SIGKILL) by the kernel's OOM killer: "
            "oom_kill of control group /jobs rose to 4"),
        ),
        (
            ExitStatus(signal=9), STILL, Reason.KILLED_BY_SIGNAL,
            (f"the worker was killed by signal 9 (SIGKILL) {UNKNOWN}; "
            "oom_kill of control group /jobs did not rise"),
        ),
        (
            ExitStatus(signal=9), None, Reason.KILLED_BY_SIGNAL,
            f"the worker was killed by signal 9 (SIGKILL) {UNKNOWN}",
        ),
        (
            ExitStatus(signal=15), ROSE, Reason.KILLED_BY_SIGNAL,
            f"the worker was killed by signal 15 (SIGTERM) {UNKNOWN}",
        ),
        (
            ExitStatus(signal=11), ROSE, Reason.NATIVE_CRASH,
            ("the worker was killed by signal 11 (SIGSEGV): "
            "native code used memory that is not there"),
        ),
        (
            ExitStatus(signal=24), None, Reason.KILLED_BY_SIGNAL,
            ("the worker was killed by signal 24 (SIGXCPU): "
            "it had used up its CPU time (RLIMIT_CPU)"),
        ),
        (
            ExitStatus(code=7), None, Reason.EXITED,
            ("the worker exited with code 7 in the middle of the attempt "
            "(os._exit, or native code called exit)"),
        ),
        (
            ExitStatus(code=0), None, Reason.EXITED,
            ("the worker exited with code 0 in the middle of the attempt "
            "(os._exit, or native code called exit)"),
        ),
        (
            ExitStatus(code=5), None, Reason.EXITED,
            ("the worker exited with code 5 in the middle of the attempt "
            "(its line to the node broke: were its descriptors closed?)"),
        ),
        (
            ExitStatus(), None, Reason.CRASHED,
            "the worker vanished: somebody else reaped it",
        ),
    ],
)  # fmt: skip
def test_cause(status: ExitStatus, oom: OomEvidence | None, reason: Reason, words: str) -> None:
    assert cause_of_death(status, oom) == (reason, words)


def test_every_cause_is_a_crash_reason() -> None:
    statuses = [ExitStatus(), ExitStatus(code=1), *map(ExitStatus, range(1, signal.NSIG))]
    found = {cause_of_death(status, oom)[0] for status in statuses for oom in (None, ROSE, STILL)}
    assert found == CRASH_REASONS


def test_native_signals() -> None:
    native = {number for number in range(1, signal.NSIG) if is_native(ExitStatus(number))}
    names = {signal_name(number) for number in native}
    assert names == {"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSYS", "SIGTRAP"}


def test_names_of_real_time_signals() -> None:
    assert signal_name(signal.SIGRTMIN + 6) == "SIGRTMIN+6"


def test_a_crash_keeps_what_the_interpreter_wrote() -> None:
    assert ended.crashed("gone", Reason.NATIVE_CRASH, traceback="Fatal Python error") == Outcome(
        state=State.FAILED,
        reason=Reason.NATIVE_CRASH,
        error_type="WorkerCrashed",
        error="gone",
        traceback="Fatal Python error",
        proof="exited",
        crashed=True,
        effects_unknown=True,
    )
