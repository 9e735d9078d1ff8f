"""The one table of real-time signals between a supervisor, its workers and the autopsy."""

from __future__ import annotations

import signal

# Sent to a worker's main thread to interrupt the attempt it is running.
INTERRUPT = signal.SIGRTMIN + 5
# Sent to one thread of a patient with tgkill: faulthandler appends that thread's stack to its dump.
FAULTHANDLER = signal.SIGRTMIN + 6
