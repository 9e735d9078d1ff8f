"""The tasks of the storm, for workers and zygotes that die at the point that FAILPOINT names."""

from __future__ import annotations

import os
import sys

from tests.programs.failpoints import Armed
from tests.programs.tasks_storm import app

__all__ = ["app"]

if "--describe" not in sys.argv:  # there only the settings are read
    Armed(os.environ["FAILPOINT"]).arm()
