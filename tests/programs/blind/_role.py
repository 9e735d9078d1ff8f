"""The other parts of a blind program: the same file once more, in a process of its own.

What the stage is for all stuck programs, `_stage` of `../stuck`, the score lets these import, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from _stage import die_with_parent


def role() -> str:
    """Return which part this process plays; the one to examine plays none."""
    return os.environ.get("STUCK_ROLE", "")


def play(part: str, *words: str, **how: Any) -> subprocess.Popen[Any]:
    """Start the program once more to play that part; it ends with us.

    It finds `words` from `sys.argv[2]` on; `how` is for Popen.
    """
    own = os.path.abspath(sys.modules["__main__"].__file__ or "")
    environment = {name: text for name, text in os.environ.items() if name != "STUCK_READY"}
    return subprocess.Popen(
        [sys.executable, own, part, *words],
        env={**environment, "STUCK_ROLE": part},
        preexec_fn=die_with_parent,
        **{"stdin": subprocess.DEVNULL, **how},
    )
