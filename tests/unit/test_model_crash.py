"""What a death is called: by exit status and counters, each cause only with its evidence."""

from __future__ import annotations

import signal

import pytest

from supervisor.model import outcome as ended
from supervisor.model.crash import (
    ExitStatus,
    OomEvidence,
    cause_of_death,
    is_native,
    signal_name,
    without_plumbing,
)
from supervisor.model.outcome import Outcome
from supervisor.model.states import CRASH_REASONS, Reason, State

SOURCE = "oom_kill of control group /jobs is 4"
ROSE = OomEvidence(killed=True, text="the OOM killer's counter rose", source=SOURCE)
STILL = OomEvidence(killed=False, text="the OOM killer's counter did not rise", source=SOURCE)


@pytest.mark.parametrize(
    ("status", "oom", "reason", "words"),
    [
        (
            ExitStatus(signal=9), ROSE, Reason.OOM_KILLED,
            ("the worker was killed by signal 9 (SIGKILL) by the kernel's OOM killer: "
            "the OOM killer's counter rose"),
        ),
        (
            ExitStatus(signal=9), STILL, Reason.KILLED_BY_SIGNAL,
            ("the worker was killed by signal 9 (SIGKILL), not by the node; "
            "the OOM killer's counter did not rise"),
        ),
        (
            ExitStatus(signal=9), None, Reason.KILLED_BY_SIGNAL,
            "the worker was killed by signal 9 (SIGKILL), not by the node",
        ),
        (
            ExitStatus(signal=15), ROSE, Reason.KILLED_BY_SIGNAL,
            "the worker was killed by signal 15 (SIGTERM), not by the node",
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
            ExitStatus(code=3), None, Reason.EXITED,
            ("the worker exited with code 3 in the middle of the attempt "
            "(os._exit, or native code called exit)"),
        ),
        (
            ExitStatus(code=6), None, Reason.EXITED,
            ("the worker exited with code 6 in the middle of the attempt "
            "(os._exit, or native code called exit)"),
        ),
        (
            ExitStatus(), None, Reason.CRASHED,
            "the worker vanished: somebody else reaped it",
        ),
    ],
)  # fmt: skip
def test_cause(status: ExitStatus, oom: OomEvidence | None, reason: Reason, words: str) -> None:
    assert cause_of_death(status, oom) == (reason, words)


def test_an_error_of_the_worker_itself_is_told_in_its_own_words() -> None:
    """Only for the code that goes with it: a body may have ended the process by another."""
    said = "an error of the worker itself: TypeError: no"
    text = "the worker exited with code {} in the middle of the attempt ({})"
    assert [cause_of_death(ExitStatus(code=code), None, said)[1] for code in (6, 7)] == [
        text.format(6, said),
        text.format(7, "os._exit, or native code called exit"),
    ]


BODY = '  File "/app/supervisor/worker/body.py", line 91 in _call'
DUMP = f"""Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/app/supervisor/worker/main.py", line 367 in _pulse

Thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/srv/pay.py", line 4 in sends

Current thread 0x00007f03 (most recent call first):
  File "/app/supervisor/worker/main.py", line 290 in _say
  File "/srv/pay.py", line 9 in pays
{BODY}
  File "/app/supervisor/worker/zygote.py", line 88 in serve
  File "<frozen runpy>", line 88 in _run_code

Extension modules: msgspec (total: 1)
"""


def test_the_dump_of_a_crash_shows_the_body() -> None:
    """Not the machinery that called it; a thread that is all ours says nothing of the crash."""
    assert (
        without_plumbing(DUMP)
        == """Fatal Python error: Segmentation fault

Thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/srv/pay.py", line 4 in sends

Current thread 0x00007f03 (most recent call first):
  File "/app/supervisor/worker/main.py", line 290 in _say
  File "/srv/pay.py", line 9 in pays

Extension modules: msgspec (total: 1)
"""
    )
    assert without_plumbing("") == ""


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
