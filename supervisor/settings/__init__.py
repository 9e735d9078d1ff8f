"""Settings as data: one table, four sources, the limits of each task, the rules between them.

Precedence: flag > environment SUPERVISOR_<NAME> > TOML file > what `App(...)` says > default.
Everything above this layer takes a `Settings` value; nobody else reads the environment.
"""

from supervisor.settings.address import NO_QUEUE, is_file, without_password
from supervisor.settings.kind import Intensity, show
from supervisor.settings.limits import NO_MEMORY_LIMIT, SCOPED, TaskLimits, TaskOptions
from supervisor.settings.line import Setting, table
from supervisor.settings.load import check_values, config_error, load_settings, toml_from
from supervisor.settings.place import default_store, state_dir, store_file
from supervisor.settings.relation import (
    GraceSum,
    fence_after,
    node_grace,
    relation_problems,
    relation_warnings,
)
from supervisor.settings.table import Settings

__all__ = [
    "NO_MEMORY_LIMIT",
    "NO_QUEUE",
    "SCOPED",
    "GraceSum",
    "Intensity",
    "Setting",
    "Settings",
    "TaskLimits",
    "TaskOptions",
    "check_values",
    "config_error",
    "default_store",
    "fence_after",
    "is_file",
    "load_settings",
    "node_grace",
    "relation_problems",
    "relation_warnings",
    "show",
    "state_dir",
    "store_file",
    "table",
    "toml_from",
    "without_password",
]
