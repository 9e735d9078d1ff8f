"""The API: one module for each subject; what can be seen and done on the pages, for programs.

Each module ends with its ENDPOINTS. An endpoint is added there; a module by its name here.
"""

from __future__ import annotations

from types import ModuleType

from supervisor.web.api import (
    access,
    acts,
    alertmanager,
    attention,
    audit,
    autopsies,
    bulk,
    dead,
    description,
    me,
    nodes,
    numbers,
    queues,
    settings,
    submit,
    tasks,
)
from supervisor.web.api.endpoint import Endpoint

#: In the order in which the description of the API shows them.
ROOMS: tuple[ModuleType, ...] = (
    tasks,
    submit,
    acts,
    bulk,
    dead,
    queues,
    nodes,
    autopsies,
    numbers,
    attention,
    audit,
    alertmanager,
    access,
    me,
    settings,
    description,
)
ENDPOINTS: tuple[Endpoint, ...] = tuple(one for room in ROOMS for one in room.ENDPOINTS)
