"""The last vital signs of a worker can be read after its SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from supervisor.worker.vitals import Reading, Vitals, create

WORKER = """
import os, sys, time
from supervisor.worker.vitals import Vitals
vitals = Vitals(int(sys.argv[1]))
vitals.beat()
vitals.begin(41, 1_000, 17)
vitals.tick()
vitals.progress(3, 10, 2_000)
vitals.progress(3, 10, 3_000)
vitals.acknowledge(41, "cancel")
try:
    os.ftruncate(int(sys.argv[1]), 0)
except PermissionError:
    print("written", flush=True)
time.sleep(600)
"""


def test_what_a_killed_worker_wrote_last() -> None:
    fd = create()
    vitals = Vitals(fd)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(fd)], pass_fds=[fd], stdout=subprocess.PIPE, text=True
    )
    os.close(fd)
    with worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "written\n"
        worker.send_signal(signal.SIGKILL)
    assert worker.returncode == -signal.SIGKILL
    seen = vitals.read()
    vitals.close()
    assert seen == Reading(
        beats=1,
        ticks=1,
        seq=41,
        last_seq=41,
        started_ns=1_000,
        progress_changes=1,
        progress_done=3.0,
        progress_total=10.0,
        progress_changed_ns=2_000,
        acknowledged_seq=41,
        acknowledged_kind="cancel",
        finished=0,
        output_start=17,
    )
