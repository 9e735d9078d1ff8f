"""What a patient switches on in itself, so that it can still be read when it no longer answers.

Secret: which kernel and interpreter switches that takes. Invariant: adds no thread and opens no
file; costs nothing until a log record is written or a signal arrives. Called once by a worker.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging

from autopsy import signals
from autopsy.ring import LogRing, RingHandler

_PR_SET_PTRACER = 0x59616D61
_ANY_PROCESS = ctypes.c_ulong(-1)


def install(log_fd: int, dump_fd: int | None) -> RingHandler:
    """Send the root logger's records to the ring and let crashes and the autopsy dump stacks.

    `dump_fd` must stay open for the life of the process: faulthandler keeps the number. The root
    logger's level is left alone.
    """
    handler = RingHandler(LogRing(log_fd))
    logging.getLogger().addHandler(handler)
    if dump_fd is not None:
        faulthandler.enable(dump_fd)
        # all_threads=True walks frames of running threads and crashes healthy ones; the autopsy
        # signals one thread after the other instead.
        faulthandler.register(signals.FAULTHANDLER, file=dump_fd, all_threads=False, chain=False)
    _allow_tracing()
    return handler


def _allow_tracing() -> None:
    """Let a sibling process attach under Yama; without Yama the answer is EINVAL, as usual."""
    ctypes.pythonapi.prctl(_PR_SET_PTRACER, _ANY_PROCESS, 0, 0, 0)  # no library is loaded anew
