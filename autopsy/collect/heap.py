"""What the patient's Python heap consists of, when it is large enough to ask.

Secret: when it is worth its time, and that a process of its own reads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import autopsy
from autopsy.collect import procfs
from autopsy.collect.patient import Patient
from autopsy.section import Payload, Skipped

TIME_BOX_S = 1.5
# A small program's heap is no cause; reading a large one takes most of a second.
_DEFAULT_OVER_BYTES = 64 << 20
# The reader ends by itself after 0.7 s; it may have to wait for a CPU.
_LIMIT_S = 1.4
_READER = "import sys; sys.path.insert(0, sys.argv[1])\nfrom autopsy.cpython import inventory\n"
_READER += "inventory.main(int(sys.argv[2]))"


def collector(over_bytes: int | None = None) -> Callable[[Patient], Payload]:
    """Return the collector of the heap of a process with more resident memory than that.

    Shapes: objects, seen, partial, share (of the memory that was looked at), types and buffers
    (type, count, bytes), python_bytes; small_bytes (in use in pools), unused_bytes (free in them);
    containers (name, type, length), longest first. Raises Skipped when it is smaller.
    """
    over = _DEFAULT_OVER_BYTES if over_bytes is None else over_bytes

    def collect(patient: Patient) -> Payload:
        if procfs.is_hidden(patient.pid):
            raise Skipped("its memory is hidden from us: this needs CAP_SYS_PTRACE")
        resident = _resident_bytes(patient.pid)
        if resident < over:
            mib = over >> 20
            raise Skipped(f"it uses {resident >> 20} MiB; the heap is counted from {mib} MiB on")
        payload = _read(patient.pid)
        if "skipped" in payload:
            raise Skipped(payload["skipped"])
        return payload

    return collect


def _read(pid: int) -> Payload:
    package = str(Path(autopsy.__file__).parents[1])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _READER, package, str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise Skipped(f"not read in {_LIMIT_S} s") from exc
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise RuntimeError(f"the reader of the heap failed: {said[0] if said else 'no word'}")
    found: Payload = json.loads(done.stdout)
    return found


def _resident_bytes(pid: int) -> int:
    words = (procfs.status(f"/proc/{pid}/status") or {}).get("VmRSS", "0").split()
    return int(words[0]) * 1024
