"""The secrets a process was started with, so that they can be removed wherever else they appear.

Secret: where they are looked for. What is found here is never a section. Called by `examine`, as a
collector with a time box: even these files can hang.
"""

from __future__ import annotations

from autopsy.collect import procfs
from autopsy.collect.holder import family
from autopsy.collect.patient import Patient
from autopsy.secret import in_arguments, in_environment
from autopsy.section import Payload

NAME = "secrets"
_MAX_CHILDREN = 100
_ENVIRONMENT_BYTES = 1 << 20


def collect(patient: Patient) -> Payload:
    """Return the secret values in the environment and command lines. Shapes: values."""
    block = procfs.read_text(f"/proc/{patient.pid}/environ", _ENVIRONMENT_BYTES) or ""
    found = [*in_environment(block), *in_arguments(procfs.command_line(patient.pid))]
    for pid in family(patient.pid)[1 : 1 + _MAX_CHILDREN]:
        found += in_arguments(procfs.command_line(pid))
    return {"values": list(dict.fromkeys(found))}
