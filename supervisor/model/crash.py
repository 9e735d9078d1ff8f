"""Why a worker died under its attempt: from its exit status and the kernel's own counters.

Pure: the node reads, this decides. A cause is named only with evidence for it: without a risen
counter a SIGKILL is no OOM kill, and who sent a signal is not known unless it was the node.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from supervisor.model.states import Reason

#: Signals that the kernel sends a process for what its own native code did.
NATIVE: Mapping[int, str] = MappingProxyType(
    {
        signal.SIGSEGV: "native code used memory that is not there",
        signal.SIGABRT: "native code called abort (a failed check, or a damaged heap)",
        signal.SIGBUS: "native code used mapped memory that its file no longer backs",
        signal.SIGFPE: "native code divided by zero, or the like",
        signal.SIGILL: "native code ran an instruction that this CPU does not have",
        signal.SIGSYS: "a system call was made that a seccomp filter forbids",
        signal.SIGTRAP: "native code ran into a breakpoint",
    }
)
#: Signals whose usual sender is the kernel, for a limit of the process.
_LIMITS: Mapping[int, str] = MappingProxyType(
    {
        signal.SIGXCPU: "it had used up its CPU time (RLIMIT_CPU)",
        signal.SIGXFSZ: "it wrote a file beyond RLIMIT_FSIZE",
    }
)
#: Frames of the machinery around the body. Source: faulthandler's own format.
_OWN_FRAME = re.compile(r'  File ".*/supervisor/worker/\w+\.py", line \d+ in ')
_BODY_FRAME = re.compile(r'  File ".*/supervisor/worker/body\.py", line \d+ in ')
#: Exit codes that a worker gives itself in the middle of an attempt; for the second it says why.
_LINE_BROKE, _OWN_ERROR = 5, 6


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How the kernel says that a process ended: by `signal` or with `code`; neither: unknown."""

    signal: int | None = None
    code: int | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"killed by signal {self.signal} ({signal_name(self.signal)})"
        if self.code is not None:
            return f"exited with code {self.code}"
        return "vanished: somebody else reaped it"


@dataclass(frozen=True, slots=True)
class OomEvidence:
    """What the counters of OOM kills say of a death: `killed` only if one rose for it.

    `text` is short, for everybody who reads the error; `source` says exactly what was read.
    """

    killed: bool
    text: str
    source: str


def signal_name(number: int) -> str:
    """Return the name of a signal, real-time ones counted from the first."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def is_native(status: ExitStatus) -> bool:
    """Say whether its own native code ended the process, as far as the signal tells."""
    return status.signal in NATIVE


def cause_of_death(
    status: ExitStatus, oom: OomEvidence | None, last_word: str = ""
) -> tuple[Reason, str]:
    """Return the reason of a death that the node did not cause, and the words for people.

    `last_word` is why the worker said that it would leave, if it did.
    """
    if status.signal is not None:
        return _cause_of_signal(status.signal, f"the worker was {status}", oom)
    if status.code is None:
        return Reason.CRASHED, f"the worker {status}"
    text = f"the worker {status} in the middle of the attempt"
    why = "os._exit, or native code called exit"
    if status.code == _LINE_BROKE:
        why = "its line to the node broke: were its descriptors closed?"
    elif status.code == _OWN_ERROR and last_word:
        why = last_word
    return Reason.EXITED, f"{text} ({why})"


def _cause_of_signal(number: int, text: str, oom: OomEvidence | None) -> tuple[Reason, str]:
    if number in NATIVE:
        return Reason.NATIVE_CRASH, f"{text}: {NATIVE[number]}"
    if number in _LIMITS:
        return Reason.KILLED_BY_SIGNAL, f"{text}: {_LIMITS[number]}"
    if number == signal.SIGKILL and oom is not None:
        if oom.killed:
            return Reason.OOM_KILLED, f"{text} by the kernel's OOM killer: {oom.text}"
        return Reason.KILLED_BY_SIGNAL, f"{text}, not by the node; {oom.text}"
    return Reason.KILLED_BY_SIGNAL, f"{text}, not by the node"


def without_plumbing(dump: str) -> str:
    """Leave the worker's own frames out of what faulthandler wrote: a reader looks for the body's.

    A stack ends at the call of the body; a thread that has only our own frames is left out.
    """
    blocks = [block.split("\n") for block in dump.split("\n\n")]
    kept = [own for block in blocks if (own := _without_own_frames(block))]
    return "\n\n".join("\n".join(block) for block in kept)


def _without_own_frames(block: list[str]) -> list[str]:
    frames = [line for line in block if line.startswith("  File ")]
    if block[0].startswith("Thread ") and frames and all(map(_OWN_FRAME.match, frames)):
        return []
    body = next((at for at, line in enumerate(block) if _BODY_FRAME.match(line)), len(block))
    return block[:body] + [line for line in block[body:] if not line.startswith("  ")]
